import { serverProjects } from "./servers.ts";

/** A project that is deployed as a user would deploy it, and the requests that it must answer. */
export interface Project {
  name: string;
  /** Directory below test/projects with its files. Default: the name. */
  directory?: string;
  /** Files that are added or replaced, as text. An object is written as JSON. */
  files?: Record<string, string | object>;
  /** Programs that run in a copy of the project before it is committed, to write a lock file without download addresses. */
  prepare?: string[][];
  /** Path of the configuration in the source. Default: langgraph.json. */
  configPath?: string;
  /** Installers on the PATH of the build. `pypi` needs Python 3.11 or newer. `uv` also puts uv on the PATH. */
  needs: ("npm" | "pypi" | "uv")[];
  /** Lines that the build log must have. */
  log?: RegExp[];
  /** Secrets of the deployment. */
  secrets?: Record<string, string>;
  /** `turns`: two runs on one thread of the LangGraph graph `agent`, of which the second must know the first. */
  ask: "turns" | Question[] | { buildFails: RegExp };
}

export interface Question {
  path: string;
  method?: string;
  headers?: Record<string, string>;
  /** Sent as JSON. */
  body?: object;
  status?: number;
  answers: RegExp;
}

/** Returns a package.json with these dependencies. */
const npm = (dependencies: Record<string, string>) => ({
  "package.json": { name: "agent", private: true, type: "module", dependencies },
});

const langgraphJs = (version: string, core: string, more: Partial<Project> = {}): Project => ({
  name: `langgraph.js ${version}`,
  directory: "langgraph-js",
  files: npm({ "@langchain/langgraph": version, "@langchain/core": core }),
  needs: ["npm"],
  ask: "turns",
  ...more,
});

const langgraphPython = (requirement: string, more: Partial<Project> = {}): Project => ({
  name: `${requirement} with pip`,
  directory: "langgraph-python",
  files: { "requirements.txt": `${requirement}\n` },
  needs: ["pypi"],
  ask: "turns",
  ...more,
});

export const projects: Project[] = [
  langgraphJs("1.4.18", "1.2.13"),
  langgraphPython("langgraph>=1,<2"),
  ...serverProjects,
];
