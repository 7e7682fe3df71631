import type { Deployment } from "../contract/deployments/deployment.ts";
import { isRefusal } from "./failure.ts";
import { pause } from "./pause.ts";

/** A deployment that others, or its own rollout, change faster than one can read it is reported. */
const attemptsMax = 12;

/** On average half of it: those who were refused together do not meet again. */
const pauseMs = 200;

/**
 * Reads a deployment, and makes of it a change that counts only for that state; reads it again when it was changed
 * meanwhile.
 * @throws ApiFailure `changedMeanwhile` when that happens again and again.
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
