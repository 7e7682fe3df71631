const second = 1_000;
const minute = 60 * second;
const mib = 1024 * 1024;

/**
 * How long a revision may stay in a status before it fails. No status waits without a limit.
 *
 * Resolving is one `git ls-remote` or registry look-up (each limited to 20 s): three attempts, and two servers that die
 * meanwhile, each of which holds it for 30 s more (`deploymentLeaseMs`). A build of a large project installs for minutes on
 * a slow link. Deploying: the original allowed 300 s, a frequent complaint about slow cold starts; this is three times that.
 */
export const resolveTimeoutMs = 2 * minute;
export const databaseTimeoutMs = 10 * minute;
export const buildTimeoutMs = 30 * minute;
export const deployTimeoutMs = 900 * second;

/** For servers that start no builds. While all build slots are busy the deadline is extended, because a slot is free when its build ends. */
export const awaitingBuildTimeoutMs = 2 * buildTimeoutMs;

/**
 * How long a rollout without room in its cluster keeps its turn when a newer revision waits. An autoscaler of nodes needs
 * minutes, and many pushes in a row must not start it over each time.
 */
export const unschedulableGraceMs = 5 * minute;

/** Writing the assignment takes one transaction. Servers that die meanwhile hold it for 30 s each. */
export const awaitingDeployTimeoutMs = 2 * minute;

/** Builder and listener have deadlines of their own and report more when they time out, so this one comes later by this much. */
export const deadlineMarginMs = 30 * second;

/** Time limit of one pass. Its slowest step calls a code host three times for 20 s. */
export const passTimeoutMs = 90 * second;

/** Disk space that one build may use: a Node project is 150 MiB to 1 GiB, an agent with PyTorch and its GPU libraries 8 GiB. */
export const buildDiskBytesMax = 12 * 1024 * mib;

/** How long running requests may take when a replica is replaced: the agent server's own grace period of 180 s. */
export const drainTimeoutMs = 180 * second;

/** A scale-to-zero deployment stops its last replica after this long without a request. */
export const idleAfterMs = 30 * minute;

/** A deployment scales down only after fewer replicas were enough for this long (contract 6.2). */
export const scaleDownAfterMs = 30 * minute;

/**
 * Deployments that are reconciled at the same time. Their concurrent database calls share one statement, so a pass of 40 ms
 * costs half a millisecond on each side and needs few connections. The number limits the work in progress when a server
 * dies, and how long a claim waits behind others: 128 / (500 passes a second) = 0.25 s.
 */
export const reconcileConcurrencyMax = 128;

/** Concurrent calls of the reconciler to other servers; each is a git process or a connection. */
export const outboundCallsMax = 16;

/** Builds need much CPU and disk: two fill the smallest supported machine (2 cores). */
export const buildConcurrencyMax = 2;

/** Delay until the build of a dead server is noticed and restarted. Renewed three times as often. */
export const buildLeaseMs = 15 * second;

/** Interval of a full pass over all deployments without announced changes: it repairs a lost announcement. */
export const resyncIntervalMs = minute;

/** Polling interval without a wake, varied by a quarter: the longest time that changes of another server stay unnoticed. */
export const changePollIntervalMs = second;

/** How long a dead worker holds a deployment: three renewals, one every 10 s, may be missed. */
export const deploymentLeaseMs = 30 * second;
export const leaseRenewIntervalMs = 10 * second;

/** Interval of a listener's heartbeat. After three missed ones another instance may take over. */
export const listenerHeartbeatMs = 10 * second;
export const listenerLeaseMs = 30 * second;

/** How often a rollout in progress checks whether its listener is still active; its deadline is not counted while it is not. */
export const listenerPollMs = minute;

/** A rollout waits for a listener that was connected within this time: a cluster may be rebuilt overnight. */
export const listenerAwaitedMs = 24 * 60 * minute;

/** A listener silent for this long makes its deployments UNKNOWN; they keep serving. */
export const listenerSilentMs = 5 * minute;

/** A replaced listener key stays valid for this long: time to restart the listener with the new one. */
export const listenerKeyGraceMs = 60 * minute;

/** Labels of a listener, and labels that a deployment may require. */
export const listenerLabelsMax = 32;

/** Lifetime of an enrollment token, which one person may pass to another. */
export const enrollmentMs = 24 * 60 * minute;

/** Delay after an unexpected error: 1 s, doubled up to 5 min, with jitter, so one bad deployment costs little. */
export const backOffMinMs = second;
export const backOffMaxMs = 5 * minute;

/** Time for a JSON body to arrive: 2 MiB need a line of 0.6 Mbit/s. A sender that stops holds its memory no longer. */
export const bodyTimeoutMs = 30 * second;

/** Discarded of a refused request's body, so that its sender sees the response and not a reset connection. */
export const discardedBytesMax = 16 * mib;
export const discardTimeoutMs = 5 * second;

/** Connections of one server, idle ones and streams included: each costs about 15 KiB. */
export const connectionsMax = 20_000;

/** Largest source archive: what existing clients announce in `X-Goog-Content-Length-Range`. */
export const uploadBytesMax = 200 * mib;

/** Largest archive that a server is detected in. The console leaves out what detection does not read. */
export const detectionArchiveBytesMax = 32 * mib;

/** Time for reading and describing a source. Clients wait for 30 s. */
export const detectionTimeoutMs = 28 * second;

/** Detections of one server at the same time: each runs git or unpacks an archive. */
export const detectionsMax = 8;

/** Lifetime of an upload URL: longer than the 300 s that clients allow for an upload, and enough for a slow start. */
export const uploadUrlLifeMs = 15 * minute;

/** All secret names and values of one deployment together. An environment block beyond this fails to start on Linux. */
export const secretsBytesMax = mib;
export const secretNameLengthMax = 256;

/** Variables of one deployment: a page of a hundred deployments contains all their names, 40 bytes each. */
export const variablesMax = 4_096;

/** As JSON. A page of a hundred deployments or revisions contains all specs, and every read of a deployment reads its own. */
export const resourceSpecBytesMax = 32 * 1024;

/** Namespaces of one listener: a page of a hundred listeners contains all of them, up to 64 bytes each. */
export const listenerNamespacesMax = 256;

export const deploymentNameLengthMax = 128;
export const configPathLengthMax = 1_024;

/** Longest URL that browsers, proxies and git all accept. */
export const urlLengthMax = 2_048;

/** Install and build commands are one line, not a script. */
export const commandLengthMax = 4_096;

/** Replicas of one deployment. */
export const replicasMax = 100;

/** Artifacts kept per deployment for a redeploy without a build (contract 4.7). */
export const artifactsKeptMax = 10;

/** Interval of the clean-up of unused data: it works for minutes a day at most, and little accumulates in between. */
export const housekeepingIntervalMs = 10 * minute;

/** Retention of agent log lines, and the newest lines kept per deployment: about 200 MiB of table. */
export const logRetentionDays = 14;
export const logLinesKeptMax = 1_000_000;

/** Finishing a sign-in takes one call to the provider and one write. A sign-in that takes longer was interrupted and will not end. */
export const signInFinishTimeoutMs = minute;

/** Retention of a deployment's timeline. */
export const eventRetentionDays = 90;

/** A push without a webhook message is found after this long, varied by a fifth so that not all poll at once: below 5 min. */
export const branchPollMs = 4 * minute;

/** Integrations of a workspace, each for an account or group of a code host. */
export const integrationsMax = 100;

/** OAuth providers of an organization, and the size of the parameters and redirect URIs of one as JSON. All are listed in one answer. */
export const oauthProvidersMax = 100;
export const oauthProviderListsBytesMax = 16 * 1024;

/** Tokens of one owner at one OAuth provider: people have a few accounts there. */
export const oauthTokensMax = 100;

/** Length of the scopes of one token, and of its metadata as JSON. Both are stored with the token, and returned with it. */
export const oauthScopesLengthMax = 8_192;
export const oauthMetadataLengthMax = 8_192;

/** Tokens in one answer, and tokens that one statement reads. Each can have 50 KiB. */
export const oauthTokensListedMax = 1_000;

/** Tags of a workspace, values of each, and values on one deployment: a list of all fills 50 × 200 × 0.1 KiB = 1 MiB. */
export const tagsMax = 50;
export const tagValuesMax = 200;
export const tagsOfDeploymentMax = 50;

/** Variable groups of a workspace, and those of one deployment. Every revision unseals the groups of its deployment. */
export const variableGroupsMax = 100;
export const variableGroupsOfDeploymentMax = 20;

/** Heartbeat interval of an idle event stream: below the 30 s after which proxies commonly close. */
export const streamHeartbeatMs = 15 * second;

/** A client that reads nothing from a full connection for this long is disconnected, and resumes at its position. */
export const slowReaderTimeoutMs = 30 * second;

/** Event streams of one server: each holds a socket and about 30 KiB. */
export const eventStreamsMax = 5_000;

/** Programs that run beside agents at the same time, on one server. */
export const execSessionsMax = 64;

/** A program beside an agent is ended after this long without input and output. */
export const execIdleMs = 15 * minute;

/** Time for the client to say which program to run. */
export const execStartTimeoutMs = 10 * second;

/** How often the key of a running program is checked, as for event streams. */
export const execKeyCheckMs = 15 * second;

/** Connections to agents through their listeners at the same time, on one server. */
export const connectionsThroughListenersMax = 512;

/** Time for a listener to open a connection that the control plane asks for. */
export const tunnelWaitMs = 15 * second;

/** Tunnels that one listener serves at the same time, for all servers of the control plane. */
export const tunnelsOfListenerMax = 512;
