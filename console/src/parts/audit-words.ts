import type { AuditEntry } from "../../../src/contract/administration/audit.ts";
import { shortId } from "./text.ts";

/** What the actions of the audit log mean. Those without a sentence here read as their verb and subject. */
const sentences: Record<string, string> = {
  "agent.answer": "answered a request of the agent",
  "agent.call": "called the agent",
  "deployment.alert_rule": "changed an alert rule of",
  "deployment.deploy_latest": "deployed the latest commit of",
  "deployment.connect": "connected through the listener to",
  "deployment.exec": "ran a program beside",
  "deployment.git_settings": "changed how git deploys",
  "alert.mute": "muted or unmuted the alerts about",
  "deployment.mute_alerts": "muted or unmuted the alerts of",
  "deployment.resize": "changed the size of",
  "deployment.restart": "restarted",
  "deployment.retry": "retried the last deploy of",
  "deployment.tag": "changed the tags of",
  "deployment.variables": "changed the variables of",
  "deployment.variable_groups": "changed the variable groups of",
  "deployment.scale": "scaled",
  "device_login.allow": "allowed a command line on",
  "device_login.refuse": "refused a command line on",
  "installation.backup": "made a backup of the installation",
  "installation.restore": "restored the installation from a backup",
  "integration.replace_secret": "replaced the secret of the integration",
  "listener.create_enrollment": "made an enrollment key for the listener",
  "listener.replace_key": "replaced the key of the listener",
  "quotas.patch": "changed the quotas of",
  "revision.create": "deployed a revision of",
  "revision.interrupt": "interrupted a deploy of",
  "revision.redeploy": "redeployed a revision of",
  "revision.rollback": "rolled back",
  "session.create": "signed in",
  "session.delete": "signed out",
  "session.link": "made a sign-in link",
  "webhook.redeliver": "sent an event again to the webhook",
  "webhook.replace_secret": "replaced the secret of the webhook",
  "webhook.test": "sent a test to the webhook",
};

const verbs: Record<string, string> = {
  create: "created",
  delete: "deleted",
  disable: "disabled",
  enroll: "enrolled",
  import: "imported",
  lock: "locked",
  patch: "changed",
  revoke: "revoked",
};

const nouns: Record<string, string> = {
  agent_connection: "agent connection",
  alert_rule: "alert rule",
  api_key: "API key",
  github_app: "GitHub App",
  oauth_provider: "OAuth provider",
  oauth_token: "OAuth token",
  tag_value: "tag value",
  variable_group: "variable group",
};

/** Kinds of changes that a reader of the log looks for, with the first word of their actions. */
export const auditSubjects = [
  { value: "deployment", text: "Deployments" },
  { value: "revision", text: "Revisions" },
  { value: "agent", text: "Agent calls" },
  { value: "api_key", text: "API keys" },
  { value: "member", text: "Members" },
  { value: "session", text: "Sign-ins" },
  { value: "listener", text: "Listeners" },
  { value: "webhook", text: "Webhooks" },
  { value: "alert_rule", text: "Alert rules" },
  { value: "variable_group", text: "Variable groups" },
  { value: "integration", text: "Integrations" },
  { value: "oauth_provider", text: "OAuth providers" },
  { value: "quotas", text: "Quotas" },
  { value: "workspace", text: "Workspaces" },
] as const;

/** Returns what was done, without who did it and to what: "changed the variables of". */
export function actWords(action: string): string {
  const [subject = "", verb = ""] = action.split(".");
  const said = sentences[action];
  if (said !== undefined) return said;
  const noun = nouns[subject] ?? subject.replaceAll("_", " ");
  return `${verbs[verb] ?? verb.replaceAll("_", " ")} the ${noun}`;
}

/** Returns the changed fields and secrets of an entry, each as a few words. */
export function changeWords({ changes, secrets }: AuditEntry): string[] {
  const fields = Object.entries(changes)
    // Without a commit of its own, a revision takes the newest one of its branch.
    .filter(([name, { after }]) => !name.endsWith(".repo_commit_sha") || after !== null)
    .map(([name, { before, after }]) => `${fieldWords(name)}: ${valueWords(before)} → ${valueWords(after)}`);
  const named = (names: readonly string[] = [], what: string) => names.map((name) => `${name} ${what}`);
  const { added, removed, changed } = secrets ?? {};
  return [...fields, ...named(added, "added"), ...named(changed, "changed"), ...named(removed, "removed")];
}

const fieldNames: Record<string, string> = {
  build_on_push: "deploy on push",
  deployment_tier: "size",
  deployment_type: "type",
  langgraph_config_path: "config file",
  repo_branch: "branch",
  repo_commit_sha: "commit",
  repo_ref: "branch",
  repo_url: "repository",
};

function fieldWords(path: string): string {
  const name = path.replace(/^(?:source_config|source_revision_config)\./, "");
  return fieldNames[name] ?? name.replaceAll("_", " ").replaceAll(".", " ");
}

function valueWords(value: unknown): string {
  if (value === null || value === undefined || value === "") return "none";
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (typeof value === "string" && /^[0-9a-f]{40}$/.test(value)) return shortId(value);
  if (Array.isArray(value) && value.every((one) => typeof one === "string")) return value.join(", ") || "none";
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}
