/** The form in which a person types a token. */
import { Refused, signIn } from "./api.js";
import { el, show } from "./dom.js";

/** Show the form; `done` gets the session. */
export function signInForm(main, done) {
  const fault = el("p", { class: "fault", role: "alert" });
  const field = el("input", { type: "password", id: "token", name: "token", autocomplete: "off", required: true, spellcheck: "false" });
  const button = el("button", { class: "primary" }, "Sign in");
  const submit = async (event) => {
    event.preventDefault();
    button.disabled = true;
    try {
      done(await signIn(field.value.trim()));
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      fault.textContent = error.message;
      field.select();
    } finally {
      button.disabled = false;
    }
  };
  show(
    main,
    el(
      "form",
      { class: "signin card", onsubmit: submit },
      el("h1", {}, "Sign in"),
      el("label", { for: "token" }, "Token"),
      field,
      button,
      fault,
      el("p", { class: "quiet" }, "An admin makes one: ", el("code", {}, "nodepool-ocb token create NAME --role operator")),
    ),
  );
  field.focus();
}
