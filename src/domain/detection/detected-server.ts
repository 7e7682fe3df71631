import type { LocalHost } from "./local-host.ts";
import type { AddedFile } from "./presets.ts";

/** A server that was recognized in a project without a configuration file. */
export interface DetectedServer {
  /** `fastapi`, or `procfile`. */
  preset: string;
  /** Its name in a sentence: "FastAPI". */
  name: string;
  /** How it was recognized: "fastapi in pyproject.toml, app in main.py". */
  because: string;
  /** Whose packages are installed. */
  language: "node" | "python" | null;
  /** Command line that builds it after the installation; null: nothing. `script:NAME` is a script of package.json. */
  build: string | null;
  /** Command line that runs after the build, and whose failure does not fail it; null: nothing. */
  afterBuild: string | null;
  /** Command line that starts it, with `$PORT` and `$HOST`. `script:NAME` is a script of package.json. */
  start: string;
  /** Commands that run before each start, such as the migration of a database, which a build does not reach; absent: none. */
  beforeStart?: readonly string[];
  /** Variables that it needs unless the deployment sets them; absent: none. */
  variables?: Readonly<Record<string, string>>;
  /** Whether it listens on a port of its own, so that two of it cannot run on one machine. */
  hasOwnPort: boolean;
  /** Whether Node runs it, so that the port which it opens can be replaced. */
  runsInNode?: boolean;
  /** The only name to which it answers; absent: any. */
  localHost?: LocalHost;
  /** Packages to install beside those of the project. */
  adds: readonly string[];
  /** Python programs to install apart from the project, whose packages they may exclude; absent: none. */
  tools?: readonly string[];
  /** A file that the start command needs; absent: none. */
  file?: AddedFile;
  /** `3.12`; null: any. */
  pythonVersion: string | null;
}
