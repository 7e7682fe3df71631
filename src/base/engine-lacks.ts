/** Returns what an engine lacks, as the beginning of a sentence. @param service in capitals, as in the names of variables. */
export const engineLacks = (engine: "postgres" | "aegra", service: "POSTGRES" | "REDIS"): string =>
  `The engine ${engine} needs a ${service === "POSTGRES" ? "PostgreSQL" : "Redis"}, and this deployment has none. Set ${service}_URI_CUSTOM among its variables, or start the server with PIERHEAD_AGENT_${service}_URL and create the deployment again`;
