const second = 1_000;
const minute = 60 * second;
const mib = 1024 * 1024;

/**
 * How long a revision may stand in a status before it counts as failed. Nothing waits for ever.
 *
 * Resolving is one `git ls-remote` or registry look-up (each bounded at 20 s): three tries, and two servers that die under
 * it, each of which holds it for 30 s more (`deploymentLeaseMs`). A build of a large project installs for minutes on a slow link. Deploying: the original gave 300 s, a
 * frequent complaint about slow cold starts; three times that.
 */
export const resolveTimeoutMs = 2 * minute;
export const databaseTimeoutMs = 10 * minute;
export const buildTimeoutMs = 30 * minute;
export const deployTimeoutMs = 900 * second;

/** Of a server that begins no build. Where all slots are taken the wait goes on: each is free again when its build ends. */
export const awaitingBuildTimeoutMs = 2 * buildTimeoutMs;

/** Writing the assignment takes one transaction; servers that die under it hold it for 30 s each. */
export const awaitingDeployTimeoutMs = 2 * minute;

/** Builder and listener have deadlines of their own and say more when they give up: ours comes this much later. */
export const overrunMs = 30 * second;

/** One pass: its slowest step asks a code host three times for 20 s. */
export const passTimeoutMs = 90 * second;

/** What one build may unpack and leave behind: a Node project with its dependencies is 150 MiB, a large one 1 GiB. */
export const buildDiskBytesMax = 4 * 1024 * mib;

/** How long running requests may take to end when a replica is replaced: the agent server's own grace of 180 s. */
export const drainTimeoutMs = 180 * second;

/** A scale-to-zero deployment stops its last replica after this long without a request. */
export const idleAfterMs = 30 * minute;

/** Fewer replicas only after fewer would have done for this long (contract 6.2). */
export const scaleDownAfterMs = 30 * minute;

/**
 * How many deployments are reconciled at the same moment. What they ask the database at the same time is one statement,
 * so that a pass of 40 ms costs half a millisecond of each side and a few connections serve them all. It bounds how
 * much is under way when a server dies, and how long a claim waits behind others: 128 / (500 passes a second) = 0.25 s.
 */
export const reconcileConcurrencyMax = 128;

/** Calls of the reconciler to other servers at the same moment: each is a process of git, or a connection. */
export const outwardCallsMax = 16;

/** Builds are heavy on CPU and disk: two fill the smallest machine we support (2 cores). */
export const buildConcurrencyMax = 2;

/** A server that dies under a build is noticed this much later, and the build begun again; renewed three times as often. */
export const buildLeaseMs = 15 * second;

/** A full pass over all deployments even when no change was announced: repairs a lost announcement. */
export const resyncIntervalMs = minute;

/** Look for new changes even when nobody woke us, a quarter sooner or later: so long those of another server stay unseen. */
export const changePollIntervalMs = second;

/** A worker that dies holds a deployment this long: three renewals every 10 s may be missed. */
export const deploymentLeaseMs = 30 * second;
export const leaseRenewIntervalMs = 10 * second;

/** A listener sends a sign of life every 10 s; after three missed ones another instance may take over. */
export const listenerHeartbeatMs = 10 * second;
export const listenerLeaseMs = 30 * second;

/** While a rollout is under way it is looked this often whether its listener still acts: its time is not counted otherwise. */
export const listenerPollMs = minute;

/** A rollout waits for a listener that was there within this time: a cluster may be rebuilt over night. */
export const listenerAwaitedMs = 24 * 60 * minute;

/** A listener silent for this long makes its deployments UNKNOWN; they keep serving. */
export const listenerSilentMs = 5 * minute;

/** A listener's key is good this much longer once it has another one: time to restart the program with it. */
export const listenerKeyGraceMs = 60 * minute;

/** A token to enroll a listener with goes from one person to another. */
export const enrollmentMs = 24 * 60 * minute;

/** Long poll of a listener: below the 30 s at which clients and proxies commonly give up. */
export const desiredPollMs = 25 * second;

/** Delay after an unexpected error: 1 s, doubled up to 5 min, with jitter, so one bad deployment costs little. */
export const backOffMinMs = second;
export const backOffMaxMs = 5 * minute;

/** Largest JSON body of the API: 1 MiB of secrets, escaped at worst six-fold, plus settings. */
export const bodyBytesMax = 8 * mib;

/** Largest source archive: what existing clients announce in `X-Goog-Content-Length-Range`. */
export const uploadBytesMax = 200 * mib;

/** An upload URL lives longer than the 300 s a client gives an upload, and long enough for a slow start. */
export const uploadUrlLifeMs = 15 * minute;

/** All secret names and values of one deployment together. An environment block beyond this fails to start on Linux. */
export const secretsBytesMax = mib;
export const secretNameLengthMax = 256;

/** Variables of one deployment: a page of a hundred deployments names them all, 40 bytes each. */
export const variablesMax = 4_096;

/** What Kubernetes takes of annotations alone, as JSON. A page of a hundred deployments holds them all, and one text ends at 512 MiB. */
export const resourceSpecBytesMax = 256 * 1024;

export const deploymentNameLengthMax = 128;
export const configPathLengthMax = 1_024;

/** Longest URL that browsers, proxies and git all accept. */
export const urlLengthMax = 2_048;

/** Install and build commands: a line, not a script. */
export const commandLengthMax = 4_096;

/** Replicas of one deployment. */
export const replicasMax = 100;

/** Artifacts kept per deployment for a redeploy without a build (contract 4.7). */
export const artifactsKeptMax = 10;

/** What is of no more use is looked for this often: minutes of work a day at most, and nothing grows far meanwhile. */
export const housekeepingIntervalMs = 10 * minute;

/** Log lines of agents are kept this long, and the newest million of a deployment: about 200 MiB of table. */
export const logRetentionDays = 14;
export const logLinesKeptMax = 1_000_000;

/** Finishing a sign-in takes one call of the provider and one write; what takes longer was interrupted and will not end. */
export const signInFinishTimeoutMs = minute;

/** The timeline of what happened to a deployment. */
export const eventRetentionDays = 90;

/** A push that no host told of is found after this long, and a fifth of it so that not all look at once: below 5 min. */
export const branchPollMs = 4 * minute;

/** Integrations of a workspace: an account or group of a code host each. */
export const integrationsMax = 100;

/** Tags of a workspace, values of each, and values on one deployment: a list of all fills 50 × 200 × 0.1 KiB = 1 MiB. */
export const tagsMax = 50;
export const tagValuesMax = 200;
export const tagsOfDeploymentMax = 50;
/** An idle event stream says this often that it is there: below the 30 s after which proxies commonly close. */
export const streamHeartbeatMs = 15 * second;

/** A watcher that takes nothing from a full connection for this long is cut off, and comes back where it was. */
export const slowReaderTimeoutMs = 30 * second;

/** Event streams of one server: each holds a socket and about 30 KiB. */
export const eventStreamsMax = 5_000;
