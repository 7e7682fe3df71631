import { Link } from "@tanstack/react-router";
import { ArrowRight, MessagesSquare } from "lucide-react";
import { countPace, useInbox } from "../agent/approvals.ts";
import { questionOf, titleOf } from "../agent/types.ts";
import { ThreadLight } from "../parts/agent/thread-status.tsx";
import { Ago } from "../parts/time.tsx";
import type { Deployment } from "../parts/words.ts";
import { CardHead } from "./card-head.tsx";

const waitingShown = 3;

/** What the agent asks people. Empty while it asks nothing. */
export function Waiting({ deployment }: { deployment: Deployment }) {
  const all = useInbox(countPace).data?.requests ?? [];
  const own = all.filter((request) => request.deployment.id === deployment.id);
  if (own.length === 0) return null;
  return (
    <section className="card" aria-label="Waiting for you">
      <CardHead title="Waiting for you">
        <span className="lamp-count">{own.length}</span>
      </CardHead>
      <ul className="plain-list events">
        {own.slice(0, waitingShown).map(({ key, thread, interrupt, since }) => (
          <li key={key}>
            <ThreadLight status="interrupted" />
            <Link
              to="/o/$tenantId/host/deployments/$id/$part"
              params={{ tenantId: deployment.tenant_id, id: deployment.id, part: "threads" }}
              search={{ thread: thread.thread_id }}
            >
              {interrupt === null ? titleOf(thread) : questionOf(interrupt.value)}
            </Link>
            <span className="softer">
              <Ago at={since} />
            </span>
          </li>
        ))}
      </ul>
    </section>
  );
}

export function PlaygroundLink({ deployment }: { deployment: Deployment }) {
  return (
    <Link
      to="/o/$tenantId/host/deployments/$id/$part"
      params={{ tenantId: deployment.tenant_id, id: deployment.id, part: "playground" }}
      className="card card-link"
    >
      <MessagesSquare size={16} className="card-link-icon" />
      <span>
        <b>Open the playground</b>
        <small>Talk to the agent and watch its graph</small>
      </span>
      <ArrowRight size={14} className="card-link-icon" />
    </Link>
  );
}
