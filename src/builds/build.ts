import type { Artifact } from "../contract/listeners/assignment.ts";
import type { CommitText } from "../integrations/git.ts";
import type { RepositoryCredential } from "../integrations/git-credential.ts";
import type { ArchivePlace } from "./sources/uploads.ts";

/** The source of a build. Refs are resolved before a build starts, so a source always names exact content. */
export type BuildSource =
  | {
      kind: "git";
      repoUrl: string;
      commitSha: string;
      credential: RepositoryCredential | null;
      /** Whether the URL may name files of this machine or hosts in private ranges. Checked again when the build fetches. */
      allowLocal: boolean;
      allowPrivateNetwork: boolean;
    }
  | { kind: "tarball"; place: ArchivePlace; sha256: string }
  | { kind: "template"; directory: string; digest: string };

/** The output of a build: a directory on this host, an image in a container engine, or an image that a cluster builds. */
export type BuildTarget = { kind: "directory" } | ImageTarget | ClusterTarget;

/** The images on which generated Dockerfiles are based. */
export interface BaseImages {
  /** Label on everything the build creates in an engine. */
  installationId: string;
  /** Base image with Node and npm for JavaScript agents. */
  nodeImage: string;
  /** Base image with Python and pip for Python agents; `{version}` stands for the Python version, such as 3.12. */
  pythonImage: string;
}

/**
 * An image that a listener builds in its cluster. The worker on this host only prepares the build context, because programs
 * of the project run in the cluster.
 */
export interface ClusterTarget extends BaseImages {
  kind: "cluster";
  listenerId: string;
  /** Repository in a registry to which the listener pushes, as it reports it. */
  registry: string;
}

export interface ImageTarget extends BaseImages {
  kind: "image";
  /** The engine, as `DOCKER_HOST` names it. */
  host: string;
  /** A docker `config.json` with the credentials for pulling those images; null: none are needed. */
  registryAuthFile: string | null;
  /** false: the engine must not call registries in private networks for images that the project names. Default: true. */
  allowsPrivateRegistries?: boolean;
  /** Limit of each program that runs in the build. */
  memoryMib: number;
  cpuCores: number;
}

export interface BuildRequest {
  buildId: string;
  deploymentId: string;
  /** Workspace of the deployment. Builds of one workspace share the engine's cache. */
  tenantId: string;
  source: BuildSource;
  target: BuildTarget;
  /** Path of langgraph.json or pierhead.json from the root of the source; null: look for one at the root. */
  configPath: string | null;
  installCommand: string | null;
  buildCommand: string | null;
  /** What keeps threads and runs, as the deployment chose it; null: the configuration says it. */
  engine: "file" | "memory" | "postgres" | "aegra" | null;
  /** Engine of a LangGraph.js project whose configuration names none and whose packages allow it; null: files. */
  defaultEngine: "postgres" | null;
  /** Whether the deployment serves from its default engine. Files would hide the threads that it has there. */
  isDefaultKept: boolean;
  /** Variables of the deployment that the build writes into the code for browsers; absent: none. */
  variables?: Record<string, string>;
  /** `<data dir>/artifacts`: the finished artifact is renamed to `<artifactsDir>/<key>` in one step. */
  artifactsDir: string;
  /** Name of the artifact directory: digest of tenant, source and commands (`artifactKey`). */
  key: string;
  /** Scratch space of this attempt (`workDirOf`); removed when the attempt ends, whether it succeeds or fails. */
  workDir: string;
  /** Package manager caches and toolchains, shared by all builds. */
  cacheDir: string;
  /** Limit for the whole build. When it expires, the build and all its descendants are killed and it fails with `Timeout`. */
  timeoutMs: number;
  /** Limit for the size of the unpacked source, and of the finished artifact directory. */
  diskBytesMax: number;
}

export interface BuildLine {
  timestamp: Date;
  stream: "stdout" | "stderr" | "pierhead";
  level: "INFO" | "ERROR";
  message: string;
}

/** A build context in a file of this host. */
export interface PreparedContext {
  /** A tar, in the directory of builds and named after the build. */
  path: string;
  /** Path of the Dockerfile in the context. */
  dockerfile: string;
}

export type BuildResult = { /** Of a git source, once it was fetched. */ commit?: CommitText } & (
  | {
      ok: true;
      artifact: Artifact;
      cached: boolean;
      steps: { name: string; durationMs: number }[];
      /** Prepared for a cluster, which has still to build it. `artifact` then has no digest and no address yet. */
      context?: PreparedContext;
    }
  | {
      ok: false;
      /**
       * CamelCase, stable: ConfigMissing, ConfigInvalid, FetchFailed, InstallFailed, BuildFailed, Timeout, Cancelled,
       * DiskFull, ArchiveRefused, ...
       */
      reason: string;
      /** What happened, with exit code and last lines, and what to do next. Shown as `status_message`. */
      message: string;
    }
);

/** A running build: a worker process in its own process group, which dies with this process. */
export interface RunningBuild {
  readonly pid: number;
  /** Kernel start time of `pid`, so that a recycled pid is never taken for the build. */
  readonly startedAtTicks: string;
  readonly result: Promise<BuildResult>;
  /**
   * Kills the worker and every descendant; `result` then ends as `Cancelled`. Resolves when no process is left.
   * @param notice last line of the log when another server continues the build. Default: an error line that the build was cancelled.
   */
  cancel(notice?: string): Promise<void>;
}
