import type { NodeFacts } from "./node-facts.ts";
import type { PythonFacts } from "./project-facts.ts";

/** Returns what to do with an agent that only a file for a service of its vendor describes; null: none does. */
export function adviceForManagedAgents(
  node: NodeFacts | null,
  python: PythonFacts | null,
  files: ReadonlySet<string>,
): string | null {
  return adviceForDeepAgents(node, python, files) ?? adviceForLlamaDeploy(files);
}

const llamaFiles = ["llama_agents", "llama_deploy"].flatMap((name) =>
  ["toml", "yaml", "yml"].map((extension) => `${name}.${extension}`),
);

/** Workflows of LlamaIndex in a file of `llamactl` or of its predecessor, where a pyproject.toml names none. */
function adviceForLlamaDeploy(files: ReadonlySet<string>): string | null {
  const file = llamaFiles.find((name) => files.has(name));
  return file === undefined
    ? null
    : `${file} describes workflows for llamactl. To serve them here, name them in pyproject.toml in a table [tool.llamaagents.workflows], each as NAME = "package.module:workflow", and list llama-index-workflows in its dependencies.`;
}

/** Agents that are described for a service of LangSmith, which brings their server. */
function adviceForDeepAgents(node: NodeFacts | null, python: PythonFacts | null, files: ReadonlySet<string>) {
  const has = (name: string) => [node, python].some((facts) => facts?.packages.has(name) === true);
  const isNode = node?.packages.has("managed-deepagents") === true;
  const file = deepAgentFile(files);
  // With packages of other tools, agent.json is most likely theirs.
  const isOurs = file !== "agent.json" || (node ?? python) === null || has("deepagents");
  if (file !== null && isOurs) return wayFromDeepAgents(`${file} describes an agent for \`deepagents deploy\``, isNode);
  if (!has("managed-deepagents")) return null;
  return wayFromDeepAgents("This project is a Managed Deep Agent for `mda deploy`", isNode);
}

/** Returns the file that describes an agent for `deepagents deploy`; null: none does. */
export function deepAgentFile(files: ReadonlySet<string>): string | null {
  if (files.has("deepagents.toml")) return "deepagents.toml";
  return files.has("agent.json") && files.has("AGENTS.md") ? "agent.json" : null;
}

export function wayFromDeepAgents(described: string, isNode: boolean): string {
  const [make, file] = isNode ? ["createDeepAgent", "agent.ts"] : ["create_deep_agent", "agent.py"];
  const config = `{"graphs": {"agent": "./${file}:agent"}, "dependencies": ["."]}`;
  return `${described}, whose server exists only in LangSmith. To run it here, make the agent with ${make} of the package deepagents in ${file}, list its packages, and add a langgraph.json: ${config}`;
}
