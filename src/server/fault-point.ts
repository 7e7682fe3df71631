import { type FaultPoint, faultPoints } from "../store/engine/fault-points.ts";

/**
 * For the storm test: this process dies, as by `kill -9`, when it reaches a step the `count`-th time.
 * @param wish `name` or `name#count`.
 * @throws RangeError when there is no such step.
 */
export function dieAt(wish: string): (point: FaultPoint) => void {
  const [name, count = "1"] = wish.split("#");
  const wanted = faultPoints.find((point) => point === name);
  if (wanted === undefined)
    throw new RangeError(`PIERHEAD_FAULT_POINT must be one of: ${faultPoints.join(", ")}; got "${wish}"`);
  let left = Number(count);
  return (point) => {
    if (point !== wanted) return;
    left -= 1;
    if (left === 0) process.kill(process.pid, "SIGKILL");
  };
}
