import type { Duplex } from "node:stream";

/** Copies bytes both ways until either side has ended. A slow reader stops the other side's sender, and still gets all of it. */
export function joinSockets(one: Duplex, other: Duplex): void {
  for (const [from, to] of [
    [one, other],
    [other, one],
  ] as const) {
    from.on("error", () => to.destroy()).on("close", () => end(from, to));
    from.pipe(to);
    if (from.closed) end(from, to);
  }
}

/** Ends a side whose other one has closed. What that one sent to its end is written first. */
function end(from: Duplex, to: Duplex): void {
  if (!from.readableEnded || to.writableFinished) return void to.destroy();
  to.end();
  to.once("finish", () => to.destroy());
}
