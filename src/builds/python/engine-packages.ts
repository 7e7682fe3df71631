import { readdirSync } from "node:fs";
import { fileURLToPath } from "node:url";
import type { PythonProject } from "../detect/langgraph-config.ts";
import { BuildFailure } from "../failure.ts";
import {
  aegraPackages,
  aegraPythonMin,
  aegraServers,
  aegraVersion,
  type PythonServer,
  pythonServers,
  pythonServerVersion,
  serverPackages,
} from "./server.ts";
import { isVersionIn, type WantedPython } from "./wanted-version.ts";

/** The agent server of an engine for LangGraph in Python, and what Pierhead adds to it. */
export interface EnginePackages {
  version: string;
  /** Newest first. */
  servers: readonly PythonServer[];
  packages: readonly string[];
  /** Programs that check whether the server works with the packages of a project, and what they need. Relative to `src`. */
  check: readonly string[];
  /** What the host shim needs beside itself, relative to its directory. */
  parts(): string[];
  /** @throws BuildFailure `Unsupported`, `ConfigInvalid` */
  fitPython(wanted: WantedPython, project: PythonProject): WantedPython;
}

export const packagesOf = (engine: PythonProject["engine"]): EnginePackages =>
  engine === "aegra" ? onAegra : inMemory;

/** Directory of the host shim and its parts, relative to `src`. */
export const shimDir = "compute/process/langgraph";

const inMemory: EnginePackages = {
  version: pythonServerVersion,
  servers: pythonServers,
  packages: serverPackages,
  check: [`${shimDir}/langgraph-python-probe.py`, `${shimDir}/langgraph-python-shim.py`],
  parts: () => ["langgraph-python-probe.py"],
  fitPython: (wanted) => wanted,
};

const onAegra: EnginePackages = {
  version: aegraVersion,
  servers: aegraServers,
  packages: aegraPackages,
  check: [`${shimDir}/pierhead_aegra/check.py`],
  parts: () => {
    const directory = fileURLToPath(new URL(`../../${shimDir}/pierhead_aegra`, import.meta.url));
    const modules = readdirSync(directory).filter((name) => name.endsWith(".py"));
    return modules.sort().map((name) => `pierhead_aegra/${name}`);
  },
  fitPython(wanted, { configPath, memoryOnly }) {
    const range = `>=${aegraPythonMin}`;
    const isNamed = wanted.version !== null && !wanted.isPreference;
    if (isNamed && !isVersionIn(`${wanted.version}.99`, range)) {
      throw new BuildFailure(
        "EngineUnavailable",
        `${wanted.from} is ${wanted.version} in ${configPath}, but engine "aegra" needs Python ${aegraPythonMin} or newer. Change it, or choose engine "memory".`,
      );
    }
    if (memoryOnly.length > 0) {
      throw new BuildFailure(
        "EngineUnavailable",
        `${configPath} has ${memoryOnly.join(" and ")}, which engine "aegra" does not know. Remove the key, or choose engine "memory".`,
      );
    }
    return { ...wanted, ranges: [...wanted.ranges, { range, from: 'engine "aegra"' }] };
  },
};
