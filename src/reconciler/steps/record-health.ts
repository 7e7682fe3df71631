import type { Health } from "../../domain/deployment-health.ts";
import type { StepDeps } from "../deps.ts";
import type { DeploymentState } from "../plan/state.ts";
import { done, type Performed } from "./performed.ts";

/** Records the health that this pass derived, with an event if the word changed. Another worker may have been faster. */
export async function recordHealth(
  { store }: StepDeps,
  state: DeploymentState,
  { health }: { health: Health },
): Promise<Performed> {
  const isRecorded = await store.recordHealth(state.id, { seen: state.health.word, health });
  return isRecorded ? { kind: "done", state: { ...state, health } } : done;
}
