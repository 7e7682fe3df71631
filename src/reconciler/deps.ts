import type { BaseImages, BuildTarget } from "../builds/build.ts";
import type { ArchivePlace } from "../builds/sources/uploads.ts";
import type { Mode } from "../domain/mode.ts";
import type { GithubApps } from "../integrations/github-app.ts";
import type { TracingProjects } from "../integrations/langsmith-projects.ts";
import type { Db } from "../store/engine/database.ts";
import type { Logger } from "../telemetry/log.ts";
import type { Traces } from "../telemetry/traces.ts";
import type { BuildRunner } from "./builds/build-runner.ts";
import type { DeploymentState } from "./plan/state.ts";
import type { Slots } from "./slots.ts";
import type { DatabaseServers } from "./steps/database-servers.ts";
import type { Performed } from "./steps/performed.ts";
import type { ReconcilerStore } from "./store.ts";

/** What the steps of a pass work with. They read no environment and no global. */
export interface StepDeps {
  store: ReconcilerStore;
  logger: Logger;
  /** null: traces are not collected. */
  traces: Traces | null;
  builds: BuildRunner;
  /** Bounds calls to other servers: code hosts, databases of agents, the tracing backend. */
  outward: Slots;
  settings: ReconcilerSettings;
  github: GithubApps;
  codeHosts: CodeHostSteps;
  /** null: no database server is configured, so agent servers keep their state themselves. */
  databases: DatabaseServers | null;
  /** Projects of the tracing backend; null: there is no backend, or it has no projects. */
  tracing: TracingProjects | null;
  /** Resolves an image name to the exact image that the built-in listener will run; null: the listener resolves it. */
  images: {
    resolve(
      uri: string,
      tenantId: string,
    ): Promise<{ ok: true; uri: string; digest: string; keepsState: boolean } | { ok: false; message: string }>;
  } | null;
  files: DeploymentFiles;
}

/** What the reconciler loop works with. */
export interface ReconcilerDeps extends StepDeps {
  db: Db;
}

/** The steps of a deployment that follows a repository. */
export interface CodeHostSteps {
  inspectBranch(state: DeploymentState, signal: AbortSignal): Promise<Performed>;
  unfollowBranch(state: DeploymentState): Promise<Performed>;
  reportToHost(state: DeploymentState, signal: AbortSignal): Promise<Performed>;
}

export interface ReconcilerSettings {
  mode: Mode;
  /** Compute of the built-in listener: decides whether an image or a working directory can run there. */
  computeType: string;
  /** What builds produce for that compute. */
  buildTarget: BuildTarget;
  /** What images for clusters are based on. */
  baseImages: BaseImages;
  allowLocalSources: boolean;
  allowPrivateNetwork: boolean;
  templatesDir: string;
  dataDir: string;
  /** Package caches and toolchains, shared by all builds. */
  cacheDir: string;
  /** Base URL under which agent servers reach this control plane. */
  controlPlaneUrl: string;
  /** Agents accept only callers of their own workspace. */
  hasEndpointAuth: boolean;
  readonly deploymentsUrl: string;
  deployTimeoutMs: number;
  buildTimeoutMs: number;
  drainTimeoutMs: number;
  idleAfterMs: number;
  /** How often a followed branch is polled when its host sends no webhook. */
  branchPollMs: number;
  /** Agents get the address of the tracing backend with their secrets. */
  hasTracing: boolean;
}

/** What deployments leave outside of the database. */
export interface DeploymentFiles {
  /** Whether the disk has so little free space that nothing may be built. */
  isDiskLow(): Promise<boolean>;
  /** Returns where a build finds an uploaded archive. @param lifeMs time in which it begins to read it */
  locateUpload(objectPath: string, lifeMs: number): Promise<ArchivePlace>;
  removeUploads(deploymentId: string): Promise<void>;
  /** Removes an artifact that was built here, and returns whether it is gone. */
  removeArtifact(key: string): Promise<boolean>;
}
