import { type FaultPoint, faultPoints } from "../store/engine/fault-points.ts";

/**
 * Returns a callback for the storm test that kills this process, like `kill -9`, when it reaches a step for the `count`-th time.
 * @param setting `name` or `name#count`.
 * @throws RangeError when the step does not exist.
 */
export function crashAt(setting: string): (point: FaultPoint) => void {
  const [name, count = "1"] = setting.split("#");
  const wanted = faultPoints.find((point) => point === name);
  if (wanted === undefined)
    throw new RangeError(`PIERHEAD_FAULT_POINT must be one of: ${faultPoints.join(", ")}; got "${setting}"`);
  let left = Number(count);
  return (point) => {
    if (point !== wanted) return;
    left -= 1;
    if (left === 0) process.kill(process.pid, "SIGKILL");
  };
}
