import { readFile } from "node:fs/promises";
import path from "node:path";
import { parseDocument, stringify } from "yaml";
import type { AlertKind } from "../../contract/alerts/alert.ts";
import type { CreateDeployment, Secret, SourceConfigInput } from "../../contract/deployments/deployment.ts";
import type { Session } from "../session.ts";
import { checkAlerts, type DeclaredRule } from "./declared-alerts.ts";
import { checkGroups } from "./declared-groups.ts";
import { checkListeners, type DeclaredListener } from "./declared-listeners.ts";
import { asObject, checkTexts, wrong } from "./read-object.ts";

export const usualFile = "pierhead.yaml";

/** One deployment as a file declares it. Absent settings stay as they are on the server. */
export interface Declared {
  source: CreateDeployment["source"];
  repo_url?: string;
  integration_id?: string;
  ref?: string;
  config_path?: string;
  build_on_push?: boolean;
  template?: string;
  image?: string;
  type?: NonNullable<SourceConfigInput["deployment_type"]>;
  install_command?: string;
  build_command?: string;
  engine?: NonNullable<SourceConfigInput["engine"]>;
  custom_url?: string;
  /** Name or id of the listener that runs it. Fixed at creation. */
  listener?: string;
  /** Labels of the listener that runs it, instead of its name. Fixed at creation. */
  where?: Record<string, string>;
  /** Namespace of that listener. Fixed at creation. */
  namespace?: string;
  resources?: NonNullable<SourceConfigInput["resource_spec"]>;
  /** Names of the groups whose variables it gets. The last group wins, and its own variables win over all groups. */
  variable_groups?: string[];
  /** Values that may be read by everyone who reads the file. */
  variables?: Record<string, string>;
  /** Name of the variable of the caller's environment that has the value, by name of the agent's variable. */
  secrets?: Record<string, string>;
}

const texts = [
  ...["repo_url", "integration_id", "ref", "config_path", "template", "image", "type"],
  ...["install_command", "build_command", "engine", "custom_url", "listener", "namespace"],
];
const known = ["source", ...texts, "build_on_push", "where", "resources", "variable_groups", "variables", "secrets"];
const sources = ["github", "internal_template", "internal_docker", "external_docker"];

const topKeys = ["deployments", "tag", "alerts", "listeners"];

/** A whole file. */
export interface DeclaredFile {
  /** `TAG=VALUE` that every deployment of the file gets, so that `--prune` finds those that have left the file. */
  tag?: string;
  deployments: Record<string, Declared>;
  /** Rules of the workspace that the file declares. */
  alerts?: Partial<Record<AlertKind, DeclaredRule>>;
  /** Listeners of the workspace that the file declares, by name. */
  listeners?: Record<string, DeclaredListener>;
}

/** Reads a declaration. @throws CliFailure with exit code 1 that names the line or the field. */
export async function readDeclared(session: Session, file: string): Promise<DeclaredFile> {
  let text: string;
  try {
    text = await readFile(path.resolve(session.context.cwd, file), "utf8");
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    const what = code === "ENOENT" ? `There is no file ${file} here.` : `Cannot read ${file}: ${message}`;
    throw wrong(what, "Write one: pierhead pull NAME...");
  }
  const document = parseDocument(text, { uniqueKeys: true });
  const [error] = document.errors;
  if (error !== undefined) throw wrong(`${file} is not valid YAML: ${error.message}`);
  let read: unknown;
  try {
    read = document.toJS({ maxAliasCount: 100 });
  } catch (cause) {
    throw wrong(`${file} is not valid YAML: ${(cause as Error).message}`);
  }
  const top = asObject(read, file);
  const unknown = Object.keys(top).find((key) => !topKeys.includes(key));
  if (unknown !== undefined) throw wrong(`${file}: '${unknown}' is not known. Known are: ${topKeys.join(", ")}.`);
  const { tag } = top;
  if (tag !== undefined && (typeof tag !== "string" || !/^[^=]+=./.test(tag))) {
    throw wrong(`${file}: tag must be TAG=VALUE, such as repository=shop.`);
  }
  const entries = Object.entries(asObject(top["deployments"] ?? {}, "deployments"));
  const deployments = Object.fromEntries(entries.map(([name, value]) => [name, check(`deployments.${name}`, value)]));
  const alerts = top["alerts"] === undefined ? {} : { alerts: checkAlerts(top["alerts"]) };
  const listeners = top["listeners"] === undefined ? {} : { listeners: checkListeners(top["listeners"]) };
  return { ...(tag !== undefined && { tag }), deployments, ...alerts, ...listeners };
}

function check(at: string, value: unknown): Declared {
  const fields = asObject(value, at);
  for (const [key, field] of Object.entries(fields)) {
    if (!known.includes(key)) throw wrong(`${at}.${key} is not known. Known are: ${known.join(", ")}.`);
    if (texts.includes(key) && typeof field !== "string") throw wrong(`${at}.${key} must be a text.`);
  }
  // Responses show the default address instead, so an empty one would differ at every run.
  if (fields["custom_url"] === "")
    throw wrong(`${at}.custom_url is empty. Write an address, or remove the key to leave the address as it is.`);
  if (!sources.includes(String(fields["source"]))) throw wrong(`${at}.source must be one of: ${sources.join(", ")}.`);
  if (!["boolean", "undefined"].includes(typeof fields["build_on_push"])) {
    throw wrong(`${at}.build_on_push must be true or false.`);
  }
  checkPlaced(at, fields);
  if (fields["resources"] !== undefined) asObject(fields["resources"], `${at}.resources`);
  checkGroups(`${at}.variable_groups`, fields["variable_groups"]);
  checkTexts(`${at}.variables`, fields["variables"]);
  checkTexts(`${at}.secrets`, fields["secrets"]);
  const hidden = new Set(Object.keys(fields["secrets"] ?? {}));
  const both = Object.keys(fields["variables"] ?? {}).find((name) => hidden.has(name));
  if (both !== undefined) throw wrong(`${at}: ${both} is in variables and in secrets.`);
  return fields as unknown as Declared;
}

function checkPlaced(at: string, { listener, where, namespace, type }: Record<string, unknown>): void {
  const isPlaced = listener !== undefined || where !== undefined;
  if (namespace !== undefined && !isPlaced)
    throw wrong(`${at}.namespace needs a listener.`, "Name one: pierhead api GET /v2/listeners");
  if (type !== undefined && isPlaced)
    throw wrong(`${at} has a type and a listener. On a listener, resources set the sizes: remove type.`);
  if (listener !== undefined && where !== undefined)
    throw wrong(`${at} has listener and where. Name the listener or its labels, not both.`);
  checkTexts(`${at}.where`, where);
}

/** Returns the variables that a deployment should have; undefined when the file leaves them alone. */
export function declaredVariables(session: Session, name: string, declared: Declared): Secret[] | undefined {
  if (declared.variables === undefined && declared.secrets === undefined) return undefined;
  const plain = Object.entries(declared.variables ?? {}).map(([key, value]) => ({ name: key, value }));
  const { env } = session.context;
  const secret = Object.entries(declared.secrets ?? {}).map(([key, from]) => {
    const value = env[from];
    if (value === undefined || value === "") {
      throw wrong(`${name} needs the secret ${key}, but the environment variable ${from} is not set.`);
    }
    return { name: key, value };
  });
  return [...plain, ...secret];
}

export function writeDeclared(file: DeclaredFile): string {
  return stringify(file, { lineWidth: 0 });
}
