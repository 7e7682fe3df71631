import type { BuildTarget } from "../../builds/build.ts";
import type { Failure } from "../../contract/revisions/failure.ts";
import { failure } from "../../domain/failures.ts";
import type { RevisionRow } from "../../store/revisions/revisions.ts";
import type { StepDeps } from "../deps.ts";

/** Returns what a build of this revision produces: for the compute of this server, or for the cluster of its listener. */
export async function buildTargetOf(
  { store, settings }: Pick<StepDeps, "store" | "settings">,
  revision: Pick<RevisionRow, "source_config">,
): Promise<{ ok: true; target: BuildTarget } | { ok: false; message: string; failure: Failure }> {
  const { listener_id: listenerId } = revision.source_config;
  if (listenerId === null) return { ok: true, target: settings.buildTarget };
  const registry = await store.readImageRegistry(listenerId);
  if (registry !== null) return { ok: true, target: { kind: "cluster", listenerId, registry, ...settings.baseImages } };
  const message = `Listener ${listenerId} builds no images any more. Set builds.registry in its chart, then deploy again.`;
  return { ok: false, message, failure: failure("builder_missing") };
}
