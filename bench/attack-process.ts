import { setPriority } from "node:os";
import { type AttackName, type AttackSite, attacks } from "./attacks.ts";

/**
 * One attack in its own process, so that it does not delay the measuring one. It has the lowest priority, because the program of an
 * attacker runs on another machine: it may take no processor from the server. Arguments: its name, its site as JSON.
 */
setPriority(19);
const [name, site] = process.argv.slice(2);
const ending = new AbortController();
process.on("disconnect", () => {
  ending.abort();
  process.exit(0);
});
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) process.on(signal, () => {});
await attacks[name as AttackName](JSON.parse(site ?? "") as AttackSite, ending.signal);
process.send?.({ isInForce: true });
