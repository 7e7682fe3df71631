import type { DeploymentSort } from "../../src/contract/deployments/deployment.ts";
import type { HealthWord } from "../../src/contract/deployments/health.ts";
import type { SortOrder } from "../../src/contract/page.ts";

/** Search part of the list's address. Users can share a view as a link, and the Back button restores it. */
export interface ListSearch {
  q?: string;
  /** A health word, or `attention` for all words that need a look. */
  health?: HealthWord | "attention";
  type?: string;
  sort?: DeploymentSort;
  order?: SortOrder;
  page?: number;
  /** Cards instead of a table. */
  layout?: "cards";
}

/** Search part of the address of a new deployment. */
export interface NewSearch {
  /** The deployment that was created, whose build is watched. */
  made?: string;
  /** The template, or the kind of source, that the form begins with. */
  template?: string;
  from?: "github" | "internal_source";
  /** The deployment and the revision of it whose code the new deployment tries. */
  of?: string;
  revision?: string;
}

/** Search part of the address of the approvals. Default: those that wait. */
export interface ApprovalsSearch {
  show?: "answered";
}

/** Search part of the audit log's address. */
export interface AuditSearch {
  q?: string;
  /** The actor. */
  who?: string;
  /** The first word of the action. */
  what?: string;
  days?: AuditDays;
}

/** Times that the audit log can look back. */
export const auditSpans = { "1": "Last 24 hours", "7": "Last 7 days", "30": "Last 30 days" } as const;
export type AuditDays = keyof typeof auditSpans;

export function auditSearchOf(raw: Record<string, unknown>): AuditSearch {
  const textOf = (name: string) => (raw[name] === undefined ? "" : String(raw[name]));
  const { q, who, what } = { q: textOf("q"), who: textOf("who"), what: textOf("what") };
  return {
    ...(q !== "" && { q: q.slice(0, 200) }),
    ...(who !== "" && { who }),
    ...(what !== "" && { what }),
    ...(Object.hasOwn(auditSpans, textOf("days")) && { days: textOf("days") as AuditDays }),
  };
}

/** Search part of a deployment page's address: the revision and the log to show. */
export interface DeploymentSearch extends LogSearchParams {
  revision?: string;
  log?: "build" | "deploy";
  /** The revisions that are listed: those that served, or those that failed. */
  only?: RevisionFilter;
  /** The thread that is shown, a part of it, and one of its checkpoints. */
  thread?: string;
  view?: "timeline" | "runs" | "state";
  checkpoint?: string;
  /** The time that the charts show, as in `chartRanges`. Default: an hour. */
  range?: ChartRange;
  /** Two runs of the thread that are compared, separated by a comma. */
  compare?: string;
  /** A variable to add, named by the cause of a failure. */
  variable?: string;
}

/** What a list of revisions can be narrowed to, with the statuses that the server filters by. */
export const revisionFilters = {
  served: { text: "Served", status: "DEPLOYED" },
  failed: { text: "Failed", status: "BUILD_FAILED,DEPLOY_FAILED,CREATE_FAILED" },
};
export type RevisionFilter = keyof typeof revisionFilters;

/** Times that charts show, with the step of their points. */
export const chartRanges = {
  "1h": { text: "1 h", hours: 1, stepS: 60 },
  "6h": { text: "6 h", hours: 6, stepS: 60 },
  "1d": { text: "1 d", hours: 24, stepS: 300 },
  "7d": { text: "7 d", hours: 168, stepS: 1_800 },
};
export type ChartRange = keyof typeof chartRanges;

/** Search part of the address of a log: of all deployments, or of one. */
export interface LogSearchParams {
  q?: string;
  /** Seconds to look back. */
  span?: number;
  /** A range, ISO 8601, instead of `span`. */
  since?: string;
  until?: string;
  /** The line that is open. A link to it shows it. */
  line?: string;
}

/** Times that a log can look back. The first is the default. */
export const searchSpans = [
  { seconds: 86_400, text: "Last day" },
  { seconds: 3_600, text: "Last hour" },
  { seconds: 900, text: "Last 15 min" },
  { seconds: 604_800, text: "Last 7 days" },
] as const;

const moment = (value: unknown) =>
  typeof value === "string" && !Number.isNaN(Date.parse(value)) ? new Date(value).toISOString() : undefined;

/** Returns what a search part says about a log. Values that the pages do not offer are left out. */
export function logSearchOf(raw: Partial<Record<keyof LogSearchParams, unknown>>): LogSearchParams {
  const [since, until] = [moment(raw.since), moment(raw.until)];
  return {
    ...(raw.q !== undefined && String(raw.q) !== "" && { q: String(raw.q) }),
    ...(searchSpans.slice(1).some(({ seconds }) => seconds === Number(raw.span)) && { span: Number(raw.span) }),
    ...(since !== undefined && { since }),
    ...(until !== undefined && since !== undefined && { until }),
    ...(/^\d+$/.test(String(raw.line)) && { line: String(raw.line) }),
  };
}
