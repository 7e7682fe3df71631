import { createHash } from "node:crypto";
import pins from "../toolchains/langgraph-python.constraints.json" with { type: "json" };

/** The agent server; everything else comes with it, or with the project. */
export const serverPackages = ["langgraph-api", "langgraph-runtime-inmem"];

/**
 * Version of every package the agent server is tested with. To move to another one: install the server with pip into an
 * empty environment, and write what `pip freeze` says into the file in toolchains/.
 */
export const serverPins: Readonly<Record<string, string>> = pins;

/** Version of the open LangGraph server for Python, and a digest of everything that it is tested with. */
export const pythonServerVersion = `${pins["langgraph-api"]}-${createHash("sha256")
  .update(JSON.stringify(pins))
  .digest("hex")
  .slice(0, 12)}`;
