import type { BuildTarget } from "../builds/build.ts";
import type { Mode } from "../domain/mode.ts";
import type { DeploymentSizes } from "../domain/sizes.ts";
import type { GithubApps } from "../integrations/github-app.ts";
import type { TracingProjects } from "../integrations/langsmith-projects.ts";
import type { Db } from "../store/engine/database.ts";
import type { Sealer } from "../store/secrets/seal.ts";
import type { Logger } from "../telemetry/log.ts";
import type { Traces } from "../telemetry/traces.ts";
import type { BuildRunner } from "./builds/build-runner.ts";
import type { Places } from "./slots.ts";
import type { DatabaseServers } from "./steps/databases.ts";

/** What the reconciler is handed; it reads no environment and no global. */
export interface ReconcilerDeps {
  db: Db;
  logger: Logger;
  /** null: nobody collects them. */
  traces: Traces | null;
  builds: BuildRunner;
  /** For calls to other servers: code hosts, databases of agents, the tracing back end. */
  outward: Places;
  settings: ReconcilerSettings;
  sealer: Sealer;
  github: GithubApps;
  /** Where deployments get databases of their own; null: nowhere, the agent server keeps its state itself. */
  databases: DatabaseServers | null;
  /** Projects of the tracing back end; null: there is none, or it has no projects. */
  tracing: TracingProjects | null;
  /** The exact image behind a name, as the built-in listener will run it; null: it is left to the listener. */
  images: {
    resolve(
      uri: string,
      tenantId: string,
    ): Promise<{ ok: true; uri: string; digest: string; keepsState: boolean } | { ok: false; message: string }>;
  } | null;
  /** Deletes what deployments left outside the database. Paths are relative to the data directory. */
  files: DeploymentFiles;
}

export interface ReconcilerSettings {
  mode: Mode;
  /** Compute of the built-in listener: tells whether an image or a working directory can run there. */
  computeType: string;
  /** What builds make, so that it can run there. */
  buildTarget: BuildTarget;
  allowLocalSources: boolean;
  allowPrivateNetwork: boolean;
  templatesDir: string;
  dataDir: string;
  /** Package caches and toolchains, shared by all builds. */
  cacheDir: string;
  /** Address agent servers reach this control plane under. */
  controlPlaneUrl: string;
  /** Agents let in callers of their workspace only. */
  hasEndpointAuth: boolean;
  readonly deploymentsUrl: string;
  deployTimeoutMs: number;
  buildTimeoutMs: number;
  drainTimeoutMs: number;
  idleAfterMs: number;
  /** How often a followed branch is looked at when no host told of a push. */
  branchPollMs: number;
  /** Agents are told where to send their traces, with their secrets. */
  hasTracing: boolean;
}

export interface DeploymentFiles {
  removeUploads(deploymentId: string): Promise<void>;
  /** Of an artifact that was built here. @returns whether it is gone. */
  removeArtifact(key: string): Promise<boolean>;
}

export type { DeploymentSizes };
