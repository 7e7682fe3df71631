import { createHash } from "node:crypto";
import pinsAegra from "../toolchains/aegra-0.11.0.constraints.json" with { type: "json" };
import pins014 from "../toolchains/langgraph-python-0.1.4.constraints.json" with { type: "json" };
import pins0230 from "../toolchains/langgraph-python-0.2.30.constraints.json" with { type: "json" };
import pins02102 from "../toolchains/langgraph-python-0.2.102.constraints.json" with { type: "json" };
import pins0448 from "../toolchains/langgraph-python-0.4.48.constraints.json" with { type: "json" };
import pins0542 from "../toolchains/langgraph-python-0.5.42.constraints.json" with { type: "json" };
import pins0138 from "../toolchains/langgraph-python-0.13.8.constraints.json" with { type: "json" };
import pins0167 from "../toolchains/langgraph-python-0.16.7.constraints.json" with { type: "json" };

/** A version of the open LangGraph server for Python. install.py reads this as JSON. */
export interface PythonServer {
  version: string;
  /** Versions of all packages that the server is tested with. */
  pins: Readonly<Record<string, string>>;
  /** Ranges of the project's packages that the server works with, from the metadata of `langgraph-api`. */
  requires: Readonly<Record<string, string>>;
}

/** The packages of the agent server. All others are their dependencies or come with the project. */
export const serverPackages = ["langgraph-api", "langgraph-runtime-inmem"];

/**
 * Newest first. To update the pins of one, install the server with pip into an empty environment and write the output of
 * `pip freeze` into the file in toolchains/.
 */
export const pythonServers: readonly [PythonServer, ...PythonServer[]] = [
  {
    version: "0.16.7",
    pins: pins0167,
    requires: {
      langgraph: ">=0.4.10,<2",
      "langgraph-checkpoint": ">=3.0.1,<5",
      "langchain-core": ">=0.3.64",
      "langgraph-sdk": ">=0.4.4",
    },
  },
  {
    version: "0.13.8",
    pins: pins0138,
    requires: {
      langgraph: ">=0.4.10,<2",
      "langgraph-checkpoint": ">=3.0.1,<5",
      "langchain-core": ">=0.3.64",
      "langgraph-sdk": ">=0.3.5",
    },
  },
  {
    version: "0.5.42",
    pins: pins0542,
    requires: {
      langgraph: ">=0.4.10,<2",
      "langgraph-checkpoint": ">=3.0.1,<5",
      "langchain-core": ">=0.3.64",
      "langgraph-sdk": ">=0.2.15",
    },
  },
  {
    version: "0.4.48",
    pins: pins0448,
    requires: {
      langgraph: ">=0.4.0",
      "langgraph-checkpoint": ">=2.0.23",
      "langchain-core": ">=0.3.64",
      "langgraph-sdk": ">=0.2.0",
    },
  },
  {
    version: "0.2.102",
    pins: pins02102,
    requires: {
      langgraph: ">=0.3.27",
      "langgraph-checkpoint": ">=2.0.23",
      "langchain-core": ">=0.3.64",
      "langgraph-sdk": ">=0.1.74",
    },
  },
  {
    version: "0.2.30",
    pins: pins0230,
    requires: {
      langgraph: ">=0.3.27",
      "langgraph-checkpoint": ">=2.0.23",
      "langchain-core": ">=0.2.38",
      "langgraph-sdk": ">=0.1.66,<0.2",
    },
  },
  {
    version: "0.1.4",
    pins: pins014,
    requires: {
      langgraph: ">=0.2.56,<0.4",
      "langgraph-checkpoint": ">=2.0.23,<3",
      "langchain-core": ">=0.2.38,<0.4",
      "langgraph-sdk": ">=0.1.61,<0.2",
    },
  },
];

/** The server of the engine `aegra`, as above. `requires` is from the metadata of `aegra-api`. */
export const aegraPackages = ["aegra-api"];
export const aegraServers: readonly [PythonServer] = [
  {
    version: "0.11.0",
    pins: pinsAegra,
    requires: {
      langgraph: ">=1.0.3,<2",
      "langgraph-checkpoint-postgres": ">=3.1.1",
      "langgraph-sdk": ">=0.3.5",
      pydantic: ">=2.11.7",
    },
  },
];

/** Oldest Python that Aegra runs on. */
export const aegraPythonMin = "3.12";

/** Names all servers that a project may get, with a digest of all the package versions they are tested with. */
const versionOf = (servers: readonly [PythonServer, ...PythonServer[]]) =>
  `${servers[0].version}-${createHash("sha256").update(JSON.stringify(servers)).digest("hex").slice(0, 12)}`;

export const pythonServerVersion = versionOf(pythonServers);
export const aegraVersion = versionOf(aegraServers);
