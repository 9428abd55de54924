/** Machines that registered: those that wait, with the node that a rule would make of each, those refused, and those of nodes. */
import { buttons } from "./actions.js";
import { list, rows } from "./lists.js";

const GIB = 2 ** 30;

/** Show them. */
export function machines(place) {
  const forms = { memory: (bytes) => `${(bytes / GIB).toFixed(bytes < 10 * GIB ? 1 : 0)} GiB` };
  const waiting = ["mac", "address", "serial", "product", "memory", "disks", "since", "seen", "becomes", "reason"];
  const known = ["mac", "node", "address", "serial", "product", "memory", "disks", "seen", "reason"];
  const adopts = (row) => buttons(["adopt", "refuse", "forget"], { mac: row.mac, name: row.becomes ?? "", deployment: "system" });
  const forgets = (row) => buttons(["forget"], { mac: row.mac });
  return list(place, "Machines", async () => {
    const found = await rows("/v1/registrations");
    const wait = found.rows.filter((row) => row.node === null && !row.refused);
    const refused = found.rows.filter((row) => row.node === null && row.refused);
    const forecast = wait.length ? (await rows("/v1/adoption-check")).rows : [];
    const next = new Map(forecast.map((row) => [row.mac, row.node]));
    return [
      { title: "Machines that wait", columns: waiting, forms, extra: adopts, rows: wait.map((row) => ({ ...row, becomes: next.get(row.mac) ?? null })), notes: found.notes, empty: "No machine waits." },
      ...(refused.length ? [{ title: "Machines that were refused", columns: known, forms, extra: forgets, rows: refused }] : []),
      { title: "Registered machines of nodes", columns: known, forms, extra: forgets, rows: found.rows.filter((row) => row.node !== null) },
    ];
  });
}
