/** A view of one object: it is read now and after each change, and shown again if it differs. */
import { Refused } from "./api.js";
import { el, show } from "./dom.js";
import { follow } from "./live.js";

/** Show in `place` the `content(found)` of what `read()` finds, or a refusal below the `title`; `seconds`: the longest time between two reads. */
export function object(place, { title, read, content, seconds = null }) {
  let before = null;
  const load = async () => {
    try {
      const found = await read();
      const text = JSON.stringify(found);
      if (text !== before) show(place, content(found));
      before = text;
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      before = null;
      show(place, el("h1", {}, title), el("p", { class: "fault", role: "alert" }, error.message));
    }
  };
  load();
  return follow(load, seconds);
}
