import type { IncomingMessage, ServerResponse } from "node:http";
import type { OidcSettings } from "../auth/oidc.ts";
import type { RateLimit } from "../base/rate-limiter.ts";
import type { TrustedProxies } from "../base/trusted-proxies.ts";
import type { SharedContexts } from "../builds/shared-contexts.ts";
import type { Uploads } from "../builds/sources/uploads.ts";
import type { ExecRequest, ExecSession } from "../compute/compute.ts";
import type { DeploymentDebug } from "../contract/administration/debug.ts";
import type { Mode, Region } from "../contract/administration/info.ts";
import type { Posture } from "../contract/administration/posture.ts";
import type { TracingBackend } from "../domain/tracing.ts";
import type { ConsoleCall } from "../gateway/console-call.ts";
import type { GithubApps } from "../integrations/github-app.ts";
import type { TracingProjects } from "../integrations/langsmith-projects.ts";
import type { Signer } from "../registry/access-token.ts";
import type { Db } from "../store/engine/database.ts";
import type { EventFeed } from "../store/events/event-feed.ts";
import type { Sealer } from "../store/secrets/seal.ts";
import type { Logger } from "../telemetry/log.ts";
import type { Metrics } from "../telemetry/metrics.ts";
import type { Traces } from "../telemetry/traces.ts";
import type { Tunnels } from "./listeners/tunnels.ts";

/** Everything that the API needs from the rest of the server. */
export interface ApiDeps {
  db: Db;
  sealer: Sealer;
  logger: Logger;
  metrics: Pick<Metrics, "requests" | "requestSeconds" | "eventStreams">;
  /** Null when traces are not collected. */
  traces: Traces | null;
  /** Committed events, as they happen. The server that created the feed closes it, which ends the open streams. */
  events: EventFeed;
  /** Id of the built-in listener. */
  listenerId: string;
  settings: ApiSettings;
  uploads: Uploads;
  /** Build contexts of all servers; null: each server has its own. */
  contexts: SharedContexts | null;
  /** Returns what must still happen before this server is ready; empty when it is ready. */
  readiness(): string[];
  /** Returns the variables by which an agent server finds its databases. They are secret. */
  databaseEnvironment(
    deployment: { id: string; tenantId: string },
    secrets: Record<string, string>,
  ): Promise<Record<string, string>>;
  /** Projects of the tracing backend; null without a backend, or when the backend has no projects. */
  tracing: TracingProjects | null;
  /** Registry that accepts pushed images, or a text that explains why there is none. */
  registry: { signer: Signer; host: string | null } | string;
  github: GithubApps;
  /** Forwards a request of the console to an agent and writes its answer. */
  callAgent(request: IncomingMessage, response: ServerResponse, call: ConsoleCall): void;
  /** Finds the replica of an agent on this machine beside which a program can run. @throws ApiError `execUnavailable` */
  openExec(deploymentId: string, replicaId: string | null): Promise<FoundExec>;
  /** Connections to agents that run on listeners. */
  tunnels: Tunnels;
  /** Returns what the reconciler sees of a deployment; undefined for an unknown deployment. */
  explain(deploymentId: string): Promise<Omit<DeploymentDebug, "health"> | undefined>;
}

export interface FoundExec {
  replicaId: string;
  /** Starts a program beside it. @throws ApiError `execUnavailable` */
  start(request: ExecRequest): Promise<ExecSession>;
}

/** Configuration of the API. */
export interface ApiSettings {
  mode: Mode;
  region: string;
  regions: Region[];
  version: string;
  /** From where the server can be reached, and what it allows therefore. */
  posture: Posture;
  trustedProxies: TrustedProxies;
  /** Origins whose pages may call the API with a key. */
  corsOrigins: readonly string[];
  /** Domain that serves the agents alone, if the operator named one. */
  agentsDomain: string | null;
  /** Path that a proxy adds before ours, such as `/pierhead`; "" for none. */
  basePath: string;
  /** Base of absolute URLs; null to use the scheme and host of the request. */
  publicUrl: string | null;
  /** Returns the address of this server: the base of deployment addresses when there is no request. */
  ownUrl(): string;
  /** Id of this run of this server. */
  owner: string;
  dataDir: string;
  templatesDir: string;
  /** What a build makes here: a directory, or an image in a container engine. */
  buildTarget: "directory" | "image";
  /** Directory of the built console; null without a console. */
  consoleDir: string | null;
  allowLocalSources: boolean;
  allowPrivateNetwork: boolean;
  /** Domains that mails may go to; null: this server sends no mail. */
  mail: { domains: readonly string[] } | null;
  /** GitHub, or the operator's GitHub Enterprise Server. */
  githubUrl: string;
  /** Whether deployers may run programs beside agents. */
  allowsExec: boolean;
  uncappedResources: boolean;
  /** Organization whose OAuth providers every organization may use; null for none. */
  sharedAuthOrganizationId: string | null;
  /** Secret that signs the keys of services; null to reject service keys. */
  serviceSecret: string | null;
  /** Identity provider where members sign in to the console; null when only API keys sign in. */
  oidc: OidcSettings | null;
  hasBuiltinDataPlane: boolean;
  /** Whether the built-in listener runs as a separate program beside this server. */
  isDataPlaneRemote: boolean;
  rateLimit: RateLimit;
  /** Fraction of a limited resource of this server that one workspace may hold. */
  workspaceShare: number;
  /** Space for uploaded archives; undefined: half of the disk. */
  uploadSpaceMib: number | undefined;
  /** Free space that is left to the database; undefined: the default for the disk. */
  diskReserveMib: number | undefined;
  /** Log lines per second that the agents of one workspace may store; 0: no limit. */
  logLinesPerS: number;
  /** Where agents send their traces; null when the operator configured no backend. */
  tracing: TracingBackend | null;
  /** Time for reading and describing a source. */
  detectionTimeoutMs: number;
  /** Interval of the heartbeat on an idle event stream. */
  streamHeartbeatMs: number;
}
