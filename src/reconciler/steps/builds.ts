import path from "node:path";
import type { BuildRequest } from "../../builds/build.ts";
import { workDirOf } from "../../builds/worker/start-build.ts";
import type { Failure } from "../../contract/revisions/failure.ts";
import { failure } from "../../domain/failures.ts";
import { buildDiskBytesMax, deadlineMarginMs } from "../../domain/limits.ts";
import type { StepDeps } from "../deps.ts";
import type { DeploymentState } from "../plan/state.ts";
import { buildTargetOf } from "./build-target.ts";
import { extendDeadlines } from "./extend-deadlines.ts";
import { deadlineOf, moveRevision } from "./move-revision.ts";
import { done, type Performed } from "./performed.ts";
import { engineOf, variablesOf } from "./resolve.ts";
import { resolveSource } from "./resolve-source.ts";

/** Space is freed by people or by the housekeeping, which takes minutes. */
const diskRetryMs = 10_000;

/** Starts the build of a revision on this server. The build runner moves the revision to BUILDING with its claim. */
export async function beginBuild(
  deps: StepDeps,
  state: DeploymentState,
  { revisionId }: { revisionId: string },
  signal: AbortSignal,
): Promise<Performed> {
  const { builds, files, settings, store } = deps;
  if (builds.isRunning(revisionId)) return { kind: "later", retryInMs: 500, because: "the build is starting" };
  const wait = await builds.findWait({ id: revisionId, tenantId: state.tenantId });
  if (wait !== null) {
    await extendDeadlines(deps, state, wait.retryInMs);
    return { kind: "later", ...wait };
  }
  if (await files.isDiskLow()) {
    await extendDeadlines(deps, state, diskRetryMs);
    const because = "the disk of the server is almost full: builds wait until its operator frees space";
    return { kind: "later", retryInMs: diskRetryMs, because };
  }
  const revision = await store.readRevision(revisionId);
  if (revision === undefined) return done;
  const fail = (because: string, message: string, failure: Failure) =>
    moveRevision(deps, state, { revisionId, from: revision.status, to: "BUILD_FAILED", because, message, failure });
  // The quota is checked once: a build that began on a server that died may finish.
  const refusal = revision.status === "AWAITING_BUILD" ? await store.findBuildQuotaProblem(state.tenantId) : null;
  if (refusal !== null) return fail("no build minutes are left", refusal, failure("build_quota_exceeded"));
  const source = await resolveSource(deps, revision, { isFetched: true }, signal);
  if (!source.ok) return fail("the source is gone", source.message, source.failure);
  const wanted = await buildTargetOf(deps, revision);
  if (!wanted.ok) return fail("the listener builds no images", wanted.message, wanted.failure);
  const request: BuildRequest = {
    buildId: revisionId,
    deploymentId: state.id,
    tenantId: state.tenantId,
    source: source.source,
    target: wanted.target,
    configPath: revision.source_revision_config.langgraph_config_path,
    installCommand: revision.source_config.install_command,
    buildCommand: revision.source_config.build_command,
    ...(await engineOf(deps, revision)),
    ...(await variablesOf(deps, revision)),
    artifactsDir: path.join(settings.dataDir, "artifacts"),
    key: revision.artifact_key ?? revisionId,
    workDir: workDirOf(path.join(settings.dataDir, "builds"), revisionId),
    cacheDir: settings.cacheDir,
    timeoutMs: settings.buildTimeoutMs,
    diskBytesMax: buildDiskBytesMax,
  };
  const deadlineAt = new Date(store.now().getTime() + settings.buildTimeoutMs + deadlineMarginMs);
  const owner = { id: revisionId, deploymentId: state.id, tenantId: state.tenantId };
  const isStarted = await builds.begin(owner, request, deadlineAt);
  return isStarted
    ? done
    : { kind: "later", retryInMs: 500, because: "another build took the slot, or another server runs the build" };
}

/** Kills a build whose revision is no longer being built. The plan repeats the step until the build has ended. */
export async function cancelBuild(
  { builds }: StepDeps,
  _state: DeploymentState,
  { revisionId }: { revisionId: string },
): Promise<Performed> {
  await builds.cancel(revisionId);
  return { kind: "later", retryInMs: 250, because: "the build is being killed" };
}

/** Gives a revision the artifact of its build and moves it to AWAITING_DEPLOY. */
export async function acceptBuild(
  deps: StepDeps,
  { id: deploymentId, tenantId }: DeploymentState,
  { revisionId }: { revisionId: string },
): Promise<Performed> {
  const built = await deps.store.findBuiltArtifact(revisionId);
  if (built === undefined) return done;
  const revision = { id: revisionId, deploymentId, tenantId };
  await deps.store.acceptArtifact(revision, built, deadlineOf(deps, "AWAITING_DEPLOY"));
  return done;
}
