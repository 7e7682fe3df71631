import { createHash } from "node:crypto";
import pins from "../toolchains/langgraph-python.constraints.json" with { type: "json" };

/** The packages of the agent server. All others are their dependencies or come with the project. */
export const serverPackages = ["langgraph-api", "langgraph-runtime-inmem"];

/**
 * Versions of all packages that the agent server is tested with. To update them, install the server with pip into an empty
 * environment and write the output of `pip freeze` into the file in toolchains/.
 */
export const serverPins: Readonly<Record<string, string>> = pins;

/** Version of the open LangGraph server for Python, with a digest of all the package versions it is tested with. */
export const pythonServerVersion = `${pins["langgraph-api"]}-${createHash("sha256")
  .update(JSON.stringify(pins))
  .digest("hex")
  .slice(0, 12)}`;
