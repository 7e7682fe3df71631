import { pause } from "../base/pause.ts";
import type { Deployment } from "../contract/deployments/deployment.ts";
import { isRefusal } from "./failure.ts";

/** Attempts before the conflict is reported: others, or the deployment's own rollout, change it faster than one can read it. */
const attemptsMax = 12;

/** Upper bound of a random pause, so that clients with a conflict do not collide again. */
const pauseMs = 200;

/**
 * Reads a deployment and makes a change that applies only to that state. Reads it again if it was changed meanwhile.
 * @throws ApiFailure `changedMeanwhile` after 12 attempts.
 */
export async function changeAsRead<T>(
  read: (signal?: AbortSignal) => Promise<Deployment>,
  change: (deployment: Deployment) => Promise<T>,
  signal?: AbortSignal,
): Promise<T> {
  for (let attempt = 1; ; attempt += 1) {
    const deployment = await read(signal);
    try {
      return await change(deployment);
    } catch (error) {
      if (!isRefusal(error, "changedMeanwhile") || attempt === attemptsMax) throw error;
    }
    await pause(pauseMs * Math.random(), signal);
  }
}
