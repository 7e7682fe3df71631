import type { Secret, SecretReference, SourceKind } from "../contract/deployments/deployment.ts";
import { findNameProblem } from "../contract/deployments/pod-rules.ts";
import { errors } from "../contract/error.ts";
import { secretNameLengthMax, secretsBytesMax, variablesMax } from "./limits.ts";

/** Variables that the platform sets itself; the command-line clients skip them with a notice (contract 4.6). */
export const reservedSecretNames: ReadonlySet<string> = new Set([
  "LANGCHAIN_TRACING_V2",
  "LANGSMITH_TRACING_V2",
  "LANGCHAIN_ENDPOINT",
  "LANGCHAIN_PROJECT",
  "LANGSMITH_PROJECT",
  "LANGSMITH_LANGGRAPH_GIT_REPO",
  "LANGGRAPH_GIT_REPO_PATH",
  "LANGCHAIN_API_KEY",
  "LANGSMITH_CONTROL_PLANE_API_KEY",
  "POSTGRES_URI",
  "POSTGRES_PASSWORD",
  "DATABASE_URI",
  "LANGSMITH_LANGGRAPH_GIT_REF",
  "LANGSMITH_LANGGRAPH_GIT_REF_SHA",
  "LANGGRAPH_AUTH_TYPE",
  "LANGSMITH_AUTH_ENDPOINT",
  "LANGSMITH_TENANT_ID",
  "LANGSMITH_AUTH_VERIFY_TENANT_ID",
  "LANGSMITH_HOST_PROJECT_ID",
  "LANGSMITH_HOST_PROJECT_NAME",
  "LANGSMITH_HOST_REVISION_ID",
  "LOG_JSON",
  "LOG_DICT_TRACEBACKS",
  "REDIS_URI",
  "LANGCHAIN_CALLBACKS_BACKGROUND",
  "DD_TRACE_PSYCOPG_ENABLED",
  "DD_TRACE_REDIS_ENABLED",
  "LANGSMITH_DEPLOYMENT_NAME",
  "LANGGRAPH_CLOUD_LICENSE_KEY",
  "LANGGRAPH_HOST_API_KEY",
]);

/** The licensed image does not start without these, and only its users have them. */
const allowedForImages: ReadonlySet<string> = new Set(["LANGGRAPH_CLOUD_LICENSE_KEY", "LANGGRAPH_AUTH_TYPE"]);

/**
 * Returns the secrets of a request as a map.
 * @throws ApiError 400 `invalidSecret` or `secretNameReserved`. The message never contains a value.
 */
export function checkSecrets(secrets: readonly Secret[], source: SourceKind): Record<string, string> {
  checkVariableNames(secrets, source);
  const nul = secrets.find(({ value }) => value.includes("\0"));
  if (nul !== undefined) throw errors.invalidSecret(`the value of '${nul.name}' contains a NUL character.`);
  const bytes = secrets.reduce((sum, { name, value }) => sum + bytesOf(name) + bytesOf(value), 0);
  if (bytes > secretsBytesMax) {
    throw errors.invalidSecret(`all names and values together may have ${secretsBytesMax} bytes; these have ${bytes}.`);
  }
  return Object.fromEntries(secrets.map(({ name, value }) => [name, value]));
}

// The console uses these rules too, and a browser has no Buffer.
const bytesOf = (text: string) => new TextEncoder().encode(text).length;

/** Checks references to Kubernetes Secrets. @throws ApiError 400 as {@link checkSecrets}. */
export function checkSecretReferences(references: readonly SecretReference[], source: SourceKind): void {
  if (references.length > 0 && source !== "external_docker")
    throw errors.fieldNotApplicable("secret_references", source);
  checkVariableNames(references, source);
  for (const { name, secret_name, secret_key } of references) {
    if (!/^[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?$/.test(secret_name)) {
      throw errors.invalidSecret(
        `'${name}' refers to '${secret_name}', which cannot be the name of a Kubernetes Secret.`,
      );
    }
    const because = findNameProblem("Secret", secret_name);
    if (because !== null) throw errors.invalidSecret(`'${name}' ${because}`);
    if (!/^[A-Za-z0-9._-]{1,253}$/.test(secret_key)) {
      throw errors.invalidSecret(`'${name}' refers to the key '${secret_key}', which no Kubernetes Secret can have.`);
    }
  }
}

/** Checks that no variable has two origins. @throws ApiError 400 `invalidSecret`. */
export function checkOneOrigin(secretNames: readonly string[], references: readonly SecretReference[] | null): void {
  const known = new Set(secretNames);
  const both = (references ?? []).map(({ name }) => name).filter((name) => known.has(name));
  if (both.length > 0) throw errors.invalidSecret(`both secrets and secret_references name ${both.join(", ")}.`);
}

/** Checks names of variables. @throws ApiError 400 `invalidSecret` or `secretNameReserved`. */
export function checkVariableNames(variables: readonly { name: string }[], source: SourceKind): void {
  if (variables.length > variablesMax) {
    throw errors.invalidSecret(`a deployment may have ${variablesMax} variables; these are ${variables.length}.`);
  }
  const seen = new Set<string>();
  for (const { name } of variables) {
    if (name.length > secretNameLengthMax || !/^[A-Za-z_][A-Za-z0-9_]*$/.test(name)) {
      const shown = JSON.stringify(name.slice(0, 80));
      throw errors.invalidSecret(`${shown} is not a variable name: letters, digits and _, not starting with a digit.`);
    }
    if (seen.has(name)) throw errors.invalidSecret(`'${name}' is given twice.`);
    seen.add(name);
  }
  const reserved = [...seen].filter((name) => isReserved(name, source));
  if (reserved.length > 0) throw errors.secretNameReserved(reserved);
}

function isReserved(name: string, source: SourceKind): boolean {
  if (source === "external_docker" && allowedForImages.has(name)) return false;
  return reservedSecretNames.has(name);
}
