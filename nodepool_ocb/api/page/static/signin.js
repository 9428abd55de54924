/** The form in which a person types a token. */
import { offersIssuer, Refused, signIn, signInAtIssuer } from "./api.js";
import { el, show } from "./dom.js";
import { route } from "./router.js";

/** A sign-in at the issuer that failed, by the code of its error. */
const FAULTS = {
  denied: "Your account has no role here. An admin maps groups to roles.",
  unavailable: "The issuer does not answer. Sign in with a token, or try again.",
};

/** Show the form; `done` gets the session. */
export function signInForm(main, done) {
  const { view, query } = route();
  const code = view === "signin" ? query.get("fault") : null;
  const text = code ? (FAULTS[code] ?? "The sign-in at the issuer failed; begin it again. The server's log has the reason.") : "";
  const fault = el("p", { class: "fault", role: "alert" }, text);
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
  const other = el("div", {});
  const leave = async (event) => {
    event.target.disabled = true;
    try {
      await signInAtIssuer();
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      fault.textContent = error.message;
      event.target.disabled = false;
    }
  };
  const offer = (offered) => offered && show(other, el("button", { type: "button", onclick: leave }, "Sign in with your account"));
  offersIssuer().then(offer, () => {});
  show(
    main,
    el(
      "form",
      { class: "signin card", onsubmit: submit },
      el("h1", {}, "Sign in"),
      el("label", { for: "token" }, "Token"),
      field,
      button,
      other,
      fault,
      el("p", { class: "quiet" }, "An admin makes one: ", el("code", {}, "nodepool-ocb token create NAME --role operator")),
    ),
  );
  field.focus();
}
