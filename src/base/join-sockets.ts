import type { Duplex } from "node:stream";

/** Copies bytes both ways until either side has ended. A slow reader stops the other side's sender. */
export function joinSockets(one: Duplex, other: Duplex): void {
  for (const [from, to] of [
    [one, other],
    [other, one],
  ] as const) {
    from.on("error", () => to.destroy()).on("close", () => to.destroy());
    from.pipe(to);
  }
}
