/** The choice of a deployment in the views of many noderoles. Its name stands in the address; without one, all are meant. */
import { get, Refused } from "./api.js";
import { el, link, show } from "./dom.js";
import { counted } from "./format.js";
import { to } from "./router.js";

/** A field with "all" and the deployments; `chosen` gets the name, or "". A name that does not exist stays, and is marked. */
export function deploymentField(deployment, chosen) {
  const field = el("select", { id: "deployment" });
  const fill = (names, mark = "") => {
    const others = deployment && !names.includes(deployment) ? [[deployment, `${deployment}${mark}`]] : [];
    const all = [["", "all"], ...names.map((name) => [name, name]), ...others];
    show(field, all.map(([value, text]) => el("option", { value, selected: value === deployment }, text)));
  };
  fill([]);
  const refused = (error) => {
    if (!(error instanceof Refused)) throw error; // the view itself shows the refusal
  };
  get("/v1/deployments").then(({ answer }) => fill(answer.map((row) => row.name), " (there is none)"), refused);
  field.addEventListener("change", () => chosen(field.value));
  return field;
}

/** The selector of all that is shown: of a deployment or of all, with the filter. */
export function meant({ deployment, selector }) {
  const filter = selector.trim();
  if (!deployment) return filter || "*";
  return `deployment:${deployment}${filter ? ` (${filter})` : ""}`;
}

/** Where nothing matches in the deployment: the number of noderoles that match in others, with a link; else null. */
export async function elsewhere(view, { deployment, selector }) {
  const filter = selector.trim();
  if (!deployment || !filter) return null;
  const { totals } = (await get("/v1/noderole-states", { selector: filter, roles_only: true })).answer;
  const count = Object.values(totals).reduce((sum, each) => sum + each, 0);
  if (!count) return " None matches in any deployment.";
  return [` In other deployments ${counted(count, "noderole matches", "noderoles match")}: `, link("show all deployments", to(view, "", { l: filter })), "."];
}
