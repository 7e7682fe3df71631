import { errors } from "../contract/error.ts";
import { deploymentNameLengthMax } from "./limits.ts";

/** Checks the name of a deployment. @throws ApiError 400 `invalidName` (contract 4.6). */
export function checkDeploymentName(name: string): void {
  if (name.length > deploymentNameLengthMax) {
    throw errors.invalidName(`it must have at most ${deploymentNameLengthMax} characters.`);
  }
  if (!/^[A-Za-z0-9](?:[A-Za-z0-9._ -]*[A-Za-z0-9])?$/.test(name)) {
    throw errors.invalidName(
      "it may contain letters, digits, blanks, '.', '_' and '-', and must start and end with a letter or digit.",
    );
  }
}

/** Returns the one spelling of an agent's id. Only UUIDs may be sent in upper case. */
export const canonicalAgentId = (agentId: string) => agentId.toLowerCase();

/** Returns the default name of a deployment in agent mode: the agent and its environment. */
export function nameOfAgent(agentId: string, environment: string): string {
  return `agent-${agentId}-${environment}`;
}

/**
 * Longest readable part of a slug. A Kubernetes name has 63 characters: 30 + 1 + 8 of the id leave 24 for derived
 * suffixes, such as `-postgres-credentials` (21) or a revision's `-<8 hex>-<5 random>`.
 */
const slugStemLengthMax = 30;

/**
 * Returns the name of a deployment for host names, paths and infrastructure: `[a-z][a-z0-9-]*[a-z0-9]`, at most 39
 * characters, unique through the start of its id.
 */
export function slugOf(name: string, deploymentId: string): string {
  const readable = name
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, "-")
    .replace(/^-+/, "");
  // Services in Kubernetes must start with a letter (RFC 1035).
  const stem = /^[a-z]/.test(readable) ? readable : `d-${readable}`;
  return `${stem.slice(0, slugStemLengthMax).replace(/-+$/, "")}-${deploymentId.replaceAll("-", "").slice(0, 8).toLowerCase()}`;
}
