import { useQuery } from "@tanstack/react-query";
import type { DeploymentReplicas, Replica } from "../../../src/contract/deployments/replica.ts";
import { Light } from "../parts/status.tsx";
import { agoText } from "../parts/text.ts";
import { Ago, useNow } from "../parts/time.tsx";
import type { Deployment } from "../parts/words.ts";
import { useSession } from "../session.tsx";
import { CardHead, PartLink } from "./card-head.tsx";

/** Starts and exits come as events. Restarts within a revision and the ages do not. */
const renewMs = 15_000;
const shownMax = 8;

/** The copies that run, as their listener reported them last. */
export function Replicas({ deployment }: { deployment: Deployment }) {
  const { client } = useSession();
  const found = useQuery({
    queryKey: ["deployment", deployment.id, "replicas"],
    queryFn: ({ signal }) => client.listReplicas({ deployment_id: deployment.id }, { signal }),
    refetchInterval: renewMs,
  });
  if (found.data === undefined || found.data.reported_at === null) return null;
  const { replicas } = found.data;
  return (
    <section className="card" aria-label="Replicas">
      <CardHead title={replicas.length > 1 ? `Replicas · ${replicas.length}` : "Replicas"}>
        <PartLink deployment={deployment} part="logs" text="Logs" />
      </CardHead>
      {replicas.length === 0 ? (
        <p className="soft">{emptyText(found.data)}</p>
      ) : (
        <ul className="plain-list events replicas">
          {replicas.slice(0, shownMax).map((replica) => (
            <ReplicaRow key={replica.id} replica={replica} activeId={deployment.active_revision_id} />
          ))}
        </ul>
      )}
      {replicas.length > shownMax && <p className="softer">and {replicas.length - shownMax} more</p>}
      <LastExit of={found.data} />
    </section>
  );
}

const emptyText = ({ asleep }: DeploymentReplicas) =>
  asleep ? "None runs. The next request starts one." : "None runs now.";

const phases: Record<Replica["phase"], { light: string; word: string }> = {
  ready: { light: "live", word: "ready" },
  starting: { light: "deploying", word: "starting" },
  draining: { light: "replaced", word: "finishing its requests" },
  exited: { light: "failed", word: "ended" },
};

function ReplicaRow({ replica, activeId }: { replica: Replica; activeId: string | null }) {
  const { id, phase, restarts, started_at: startedAt, revision_id: revisionId, revision_number: number } = replica;
  const nowMs = useNow(10_000);
  const { light, word } = phases[phase];
  const age = startedAt === null ? null : agoText(startedAt, nowMs).replace(" ago", "");
  return (
    <li title={id}>
      <Light of={light} />
      <span>
        <span className="mono">{id.slice(-8)}</span>{" "}
        <span className="softer">
          {phase === "ready" && age !== null ? `up ${age}` : word}
          {revisionId !== activeId && number !== null && `, revision ${number}`}
        </span>
        <Use of={replica} />
      </span>
      <span className={restarts > 0 ? "warn-text" : "softer"}>
        {restarts === 0 ? "no restarts" : `${restarts} ${restarts === 1 ? "restart" : "restarts"}`}
      </span>
    </li>
  );
}

/** CPU and memory of the last minute. Empty where the host measures none, and from an older server during an upgrade. */
function Use({ of: { cpu_cores: cores, memory_mib: mebibytes } }: { of: Replica }) {
  if (cores == null || mebibytes == null) return null;
  const memory = `${Math.round(mebibytes).toLocaleString("en")} MiB`;
  return (
    <span className="softer replica-use" title="CPU and memory in the last minute">
      {cores.toFixed(2)} cores, {memory}
    </span>
  );
}

function LastExit({ of: { last_exit: exit, last_exit_at: at } }: { of: DeploymentReplicas }) {
  if (exit === null || at === null) return null;
  const [what = ""] = exit.message.split("\n", 1);
  return (
    <p className="softer clip" title={exit.message}>
      Last exit <Ago at={at} />: {what}
    </p>
  );
}
