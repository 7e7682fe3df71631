import type { Artifact } from "../contract/listeners/assignment.ts";
import type { RepositoryCredential } from "../integrations/git-credential.ts";

/** Where the files come from. Refs are resolved before a build starts: a build always names exact content. */
export type BuildSource =
  | {
      kind: "git";
      repoUrl: string;
      commitSha: string;
      credential: RepositoryCredential | null;
      /** May the URL name this machine's own files, or hosts in private ranges? Checked again here: time has passed. */
      allowLocal: boolean;
      allowPrivateNetwork: boolean;
    }
  | { kind: "tarball"; path: string; sha256: string }
  | { kind: "template"; directory: string; digest: string };

/** What a build makes: a directory on this host, or an image in a container engine. */
export type BuildTarget = { kind: "directory" } | ImageTarget;

export interface ImageTarget {
  kind: "image";
  /** The engine, as `DOCKER_HOST` names it. */
  host: string;
  /** Marks everything the build makes there. */
  installationId: string;
  /** Image with Node and npm that JavaScript agents are put on. */
  nodeImage: string;
  /** Image with Python and pip that Python agents are put on; `{version}` stands for 3.12, say. */
  pythonImage: string;
  /** A docker `config.json` with what those images are pulled with; null: nothing is needed. */
  registryAuthFile: string | null;
  /** Of each program that runs in the build. */
  memoryMib: number;
  cpuCores: number;
}

export interface BuildRequest {
  buildId: string;
  source: BuildSource;
  target: BuildTarget;
  /** Path of langgraph.json or pierhead.json from the root of the source; null: look for one at the root. */
  configPath: string | null;
  installCommand: string | null;
  buildCommand: string | null;
  /** `<data dir>/artifacts`: the finished artifact is renamed to `<artifactsDir>/<key>` in one step. */
  artifactsDir: string;
  /** Name of the artifact directory: digest of tenant, source and commands (`artifactKey`). */
  key: string;
  /** `workDirOf`: scratch space of this attempt; removed when it ends, however it ends. */
  workDir: string;
  /** Shared by all builds: package manager caches and toolchains. */
  cacheDir: string;
  /** The whole build; at its end the build and all its descendants are killed and it fails with `Timeout`. */
  timeoutMs: number;
  /** Size of the unpacked source, and of the finished artifact directory. */
  diskBytesMax: number;
}

export interface BuildLine {
  timestamp: Date;
  stream: "stdout" | "stderr" | "pierhead";
  level: "INFO" | "ERROR";
  message: string;
}

export type BuildResult =
  | { ok: true; artifact: Artifact; cached: boolean; steps: { name: string; durationMs: number }[] }
  | {
      ok: false;
      /** CamelCase, stable: ConfigMissing, ConfigInvalid, FetchFailed, InstallFailed, BuildFailed, Timeout, Cancelled, DiskFull, ArchiveRefused, ... */
      reason: string;
      /** What happened, exit code and last lines included, and what to do. Goes to `status_message`. */
      message: string;
    };

/** A running build: a worker process in its own process group, which dies with us. */
export interface RunningBuild {
  readonly pid: number;
  /** Kernel start time of `pid`, so that a recycled pid is never taken for the build. */
  readonly startedAtTicks: string;
  readonly result: Promise<BuildResult>;
  /**
   * Kills the worker and every descendant; `result` then ends as `Cancelled`. Resolves when nothing is left.
   * @param notice last line of the log, where the build goes on elsewhere. Default: that it was cancelled, as an error.
   */
  cancel(notice?: string): Promise<void>;
}
