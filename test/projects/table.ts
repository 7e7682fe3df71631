import { javascriptServers } from "./javascript-servers.ts";
import { pythonServers } from "./python-servers.ts";

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
  ask: ("turns" | "events" | Question)[] | { buildFails: RegExp };
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

const langgraphJs = (name: string, dependencies: Record<string, string>, more: Partial<Project> = {}): Project => ({
  name: `LangGraph.js ${name}`,
  directory: "langgraph-js",
  files: npm(dependencies),
  needs: ["npm"],
  ask: ["turns"],
  ...more,
});

/** Versions of LangGraph.js, and the server that each gets. */
const javascript: Project[] = [
  langgraphJs(
    "0.2 with an exact core",
    { "@langchain/langgraph": "0.2.74", "@langchain/core": "0.3.58" },
    { log: [/server 1\.1\.17: no server declares support for @langchain\/langgraph 0\.2\.74/] },
  ),
  langgraphJs(
    "0.3",
    { "@langchain/langgraph": "^0.3.0", "@langchain/core": "^0.3.0" },
    { log: [/server 1\.1\.17: it is the newest that works with @langchain\/langgraph 0\.3/] },
  ),
  langgraphJs("0.4", { "@langchain/langgraph": "^0.4.0", "@langchain/core": "^0.3.0" }, { log: [/server 1\.1\.17: /] }),
  langgraphJs(
    "1.0 with core 1.0",
    { "@langchain/langgraph": "1.0.2", "@langchain/langgraph-checkpoint": "1.0.0", "@langchain/core": "1.0.6" },
    { log: [/server 1\.1\.17: /] },
  ),
  langgraphJs("1.2", { "@langchain/langgraph": "~1.2.0", "@langchain/core": "^1.1.44" }, { log: [/server 1\.2\.2: /] }),
  langgraphJs(
    "1.4.9",
    { "@langchain/langgraph": "1.4.9", "@langchain/core": "^1.1.48" },
    { log: [/server 1\.4\.4: /] },
  ),
  langgraphJs(
    "of today",
    { "@langchain/langgraph": "^1.4.18", "@langchain/core": "^1.2.0" },
    { log: [/server 1\.5\.1: /] },
  ),
  langgraphJs(
    "with packages that exclude each other",
    { "@langchain/langgraph": "1.0.2", "@langchain/core": "1.0.6" },
    { ask: { buildFails: /No LangGraph\.js server works with @langchain\/langgraph 1\.0\.2.*npm install/ } },
  ),
  {
    name: "LangGraph.js with a ui",
    directory: "langgraph-js-ui",
    files: npm({ "@langchain/langgraph": "1.4.18", "@langchain/core": "1.2.13" }),
    needs: ["npm"],
    ask: [
      "turns",
      { path: "/ui/agent", body: { name: "greeting" }, answers: /<script src="[^"]*\/ui\/agent\/entrypoint\.js"/ },
      { path: "/ui/agent/entrypoint.js", answers: /toUpperCase/ },
    ],
  },
];

const langgraphPython = (requirement: string, more: Partial<Project> = {}): Project => ({
  name: `${requirement} with pip`,
  directory: "langgraph-python",
  files: { "requirements.txt": `${requirement}\n` },
  needs: ["pypi"],
  ask: ["turns"],
  ...more,
});

const pyproject = (dependencies: string[], more = "") =>
  `[project]
name = "agent"
version = "1.0.0"
${more}
dependencies = ${JSON.stringify(dependencies)}

[tool.setuptools]
py-modules = ["agent"]
`;

const withUv = (name: string, more: Partial<Project>): Project => ({
  name: `${name} with uv`,
  directory: "langgraph-python",
  needs: ["pypi", "uv"],
  ask: ["turns"],
  ...more,
});

/** Versions of LangGraph for Python, and the server that each gets. */
const python: Project[] = [
  langgraphPython("langgraph>=1,<2"),
  langgraphPython("langgraph>=0.2.60,<0.3", {
    log: [/agent server 0\.1\.4, the newest that works with langgraph 0\.2/],
  }),
  langgraphPython("langgraph==0.2.20", {
    ask: {
      buildFails: /The agent server needs langgraph 0\.2\.56 or newer.* but the project installs langgraph 0\.2\.20/,
    },
  }),
  withUv("langgraph 0.3", {
    files: { "requirements.txt": "langgraph<0.4\n" },
    log: [/agent server 0\.2\.102, the newest that works with langgraph 0\.3/],
  }),
  withUv("langgraph 1.0", {
    files: { "requirements.txt": "langgraph==1.0.1\n" },
    log: [/agent server 0\.5\.42, the newest that works with langgraph 1\.0\.1/],
  }),
  withUv("langgraph 0.5", {
    files: { "requirements.txt": "langgraph==0.5.4\n" },
    log: [/agent server 0\.2\.102, the newest that works with langgraph 0\.5\.4/],
  }),
  withUv("langgraph 0.4", { files: { "requirements.txt": "langgraph==0.4.8\n" }, log: [/agent server 0\./] }),
  withUv("langgraph 0.6", { files: { "requirements.txt": "langgraph==0.6.8\n" } }),
  withUv("uv.lock beside dependencies", {
    files: { "pyproject.toml": pyproject(["langgraph>=0.6"], 'requires-python = ">=3.11,<3.13"') },
    prepare: [["uv", "lock", "--upgrade-package", "langgraph==0.6.7"]],
    log: [/Installing the versions in uv\.lock/, /langgraph==0\.6\.7/, /Python 3\.1[12]/],
  }),
  ...javascriptServers,
  ...pythonServers,
];

export const projects: Project[] = [...javascript, ...python];
