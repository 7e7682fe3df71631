import type { Engine, EngineBecause, Rollout } from "../contract/listeners/assignment.ts";

export interface EngineFacts {
  /** For people, after "Engine". */
  title: string;
  /** Whether old and new replicas may run at once. `handover` also means exactly one replica. */
  rollout: Rollout;
  /** Path that answers 200 once the server can serve. Empty: the project says it, or the usual paths are asked. */
  healthPath: string;
  /** Whether it has a queue and crons of its own in a database. Asleep, a deployment would run neither. */
  hasQueue: boolean;
  /** What happens to runs in progress when a replica ends. */
  drain: string;
}

/** The engines: what keeps threads and runs of an agent server. docs/reference/engines.md shows this table. */
export const engines: Record<Engine, EngineFacts> = {
  file: {
    title: "LangGraph.js on files",
    rollout: "handover",
    healthPath: "/ok",
    hasQueue: false,
    drain: "The replica lets runs end until the drain timeout. A killed one repeats its runs at the next start.",
  },
  memory: {
    title: "LangGraph for Python, in memory",
    rollout: "handover",
    healthPath: "/ok",
    hasQueue: false,
    drain: "The replica lets runs end until the drain timeout.",
  },
  postgres: {
    title: "LangGraph.js on PostgreSQL",
    rollout: "rolling",
    healthPath: "/ok",
    hasQueue: true,
    drain: "The replica lets runs end for ten seconds. Other replicas continue the rest at the last checkpoint.",
  },
  aegra: {
    title: "LangGraph for Python on PostgreSQL and Redis, by Aegra",
    rollout: "rolling",
    healthPath: "/ok",
    hasQueue: true,
    drain: "The replica lets runs end for ten seconds. Other replicas continue the rest at the last checkpoint.",
  },
  own: {
    title: "the project's own server",
    rollout: "rolling",
    healthPath: "",
    hasQueue: false,
    drain: "The server decides. Requests in flight may end until the drain timeout.",
  },
};

/** What decided about the engine, for people, after its title. */
export const engineReasons: Record<EngineBecause, string> = {
  deployment: "chosen for this deployment",
  configuration: "named in langgraph.json",
  default: "by default",
  packages: "its packages do not work with PostgreSQL, see the build log",
};
