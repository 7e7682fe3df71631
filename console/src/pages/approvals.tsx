import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { Check, ExternalLink, Inbox as InboxIcon, MessagesSquare, Moon, Unplug } from "lucide-react";
import { useRef, useState } from "react";
import type { Deployment } from "../../../src/contract/deployments/deployment.ts";
import {
  answerRequest,
  deploymentsMax,
  type Inbox,
  inboxPace,
  type Request,
  useInbox,
  wake,
} from "../agent/approvals.ts";
import { endOf, questionOf, titleOf } from "../agent/types.ts";
import { AnsweredList } from "../parts/agent/answered-list.tsx";
import { InterruptForm } from "../parts/agent/interrupt-form.tsx";
import { ThreadLight } from "../parts/agent/thread-status.tsx";
import { Tabs } from "../parts/fields.tsx";
import { Failure, Loading } from "../parts/notices.tsx";
import { PageTitle } from "../parts/page-head.tsx";
import { usePageTitle } from "../parts/page-title.ts";
import { agoText } from "../parts/text.ts";
import { useNow } from "../parts/time.tsx";
import type { ApprovalsSearch } from "../search.ts";
import { queries, textOf } from "../server.ts";
import "../style/threads.css";
import "../style/approvals.css";

interface Answered {
  request: Request;
  answer: string;
}

/** What agents ask people, from all deployments, and who answered. */
export function ApprovalsPage() {
  usePageTitle("Approvals");
  const { show = "waiting" } = useSearch({ strict: false }) as ApprovalsSearch;
  const navigate = useNavigate();
  return (
    <>
      <div className="page-head">
        <PageTitle
          title="Approvals"
          about={
            show === "waiting"
              ? "Runs that stopped to ask a person, from every deployment. The longest wait first."
              : "Requests that were answered in the console, from every deployment. The newest first."
          }
        />
        <Tabs
          label="Which"
          value={show}
          onValue={(value) => void navigate({ to: ".", search: value === "waiting" ? {} : { show: value } })}
          options={[
            { value: "waiting", text: "Waiting" },
            { value: "answered", text: "Answered" },
          ]}
        />
      </div>
      {show === "waiting" ? <Waiting /> : <AnsweredList />}
    </>
  );
}

function Waiting() {
  const inbox = useInbox(inboxPace);
  const [answered, setAnswered] = useState<Answered[]>([]);
  // The thread changes when its run goes on, so a later question is not taken for the answered one.
  const done = new Set(answered.map(({ request }) => momentOf(request)));
  const waiting = inbox.data?.requests.filter((request) => !done.has(momentOf(request))) ?? [];
  const onAnswer = async (request: Request, answer: unknown) => {
    await answerRequest(request, answer);
    setAnswered((before) => [{ request, answer: JSON.stringify(answer) }, ...before]);
    void queries.invalidateQueries({ queryKey: ["approvals"] });
  };
  return (
    <>
      {inbox.isPending && <Loading what="the approvals" />}
      {inbox.isError && <Failure error={inbox.error} retry={() => void inbox.refetch()} />}
      {inbox.data !== undefined && waiting.length === 0 && <Nothing inbox={inbox.data} hasAnswered={done.size > 0} />}
      {waiting.length > 0 && (
        <ul className="asks plain" aria-label="Waiting">
          {waiting.map((request) => (
            <Ask key={questionKeyOf(request)} request={request} onAnswer={(answer) => onAnswer(request, answer)} />
          ))}
        </ul>
      )}
      {answered.length > 0 && (
        <section className="asked" aria-label="Answered here" aria-live="polite">
          <h2>Answered here</h2>
          <ul className="plain">
            {answered.map(({ request, answer }) => (
              <li key={momentOf(request)}>
                <Check size={14} />
                <span className="clip">{questionOf(request.interrupt?.value)}</span>
                <Answer of={answer} />
                <ThreadLink request={request} />
              </li>
            ))}
          </ul>
        </section>
      )}
      {inbox.data !== undefined && <NotAsked inbox={inbox.data} />}
    </>
  );
}

/** What was sent. Approvals without more words are `true` and `false`. */
function Answer({ of: answer }: { of: string }) {
  if (answer === "true") return <span className="soft">Approved</span>;
  if (answer === "false") return <span className="soft">Declined</span>;
  return <code className="clip">{answer}</code>;
}

const momentOf = ({ key, since }: Request) => `${key} ${since}`;

/** Text that a person typed for one question is not for the next one. */
const questionKeyOf = ({ key, interrupt }: Request) => `${key} ${JSON.stringify(interrupt?.value)}`;

function Ask({ request, onAnswer }: { request: Request; onAnswer: (answer: unknown) => Promise<void> }) {
  const { deployment, thread, interrupt, since } = request;
  const nowMs = useNow(10_000);
  const row = useRef<HTMLLIElement>(null);
  const answer = async (value: unknown) => {
    await onAnswer(value);
    // The answered row goes away. A user who works in another row by now keeps the focus there.
    const { activeElement } = document;
    if (activeElement === document.body || row.current?.contains(activeElement))
      document.getElementById("main")?.focus();
  };
  return (
    <li ref={row} className="ask">
      <ThreadLight status="interrupted" />
      <div>
        {interrupt === null ? (
          <>
            <h2>{titleOf(thread)}</h2>
            <p className="soft">This run stopped at a breakpoint and asks nothing. Continue it in the playground.</p>
          </>
        ) : (
          <InterruptForm interrupt={interrupt} onAnswer={answer} isRow mark={endOf(thread.thread_id)} />
        )}
        <p className="ask-meta">
          <DeploymentLink deployment={deployment} />
          {interrupt !== null && <span className="clip">{titleOf(thread)}</span>}
          {since !== null && <span title={since}>asked {agoText(since, nowMs)}</span>}
          <ThreadLink request={request} />
        </p>
      </div>
    </li>
  );
}

function DeploymentLink({ deployment }: { deployment: Deployment }) {
  return (
    <Link to="/o/$tenantId/host/deployments/$id" params={{ tenantId: deployment.tenant_id, id: deployment.id }}>
      {deployment.display_name ?? deployment.name}
    </Link>
  );
}

function ThreadLink({ request: { deployment, thread, interrupt } }: { request: Request }) {
  return (
    <Link
      to="/o/$tenantId/host/deployments/$id/$part"
      params={{
        tenantId: deployment.tenant_id,
        id: deployment.id,
        part: interrupt === null ? "playground" : "threads",
      }}
      search={{ thread: thread.thread_id }}
    >
      {interrupt === null ? "Open in the playground" : "Read the thread"}
    </Link>
  );
}

/** An empty inbox is good, unless no agent could be asked. */
function Nothing({ inbox, hasAnswered }: { inbox: Inbox; hasAnswered: boolean }) {
  const { askedCount, sleeping, unreached } = inbox;
  if (askedCount === 0 && sleeping.length + unreached.length > 0)
    return (
      <section className="card blank">
        <InboxIcon size={22} />
        <h2>No agent could be asked</h2>
        <p>Their deployments sleep or did not answer, so requests may wait there.</p>
      </section>
    );
  if (askedCount > 0 || hasAnswered)
    return (
      <section className="card blank">
        <Check size={22} className="good-text" />
        <h2>Nothing waits for you</h2>
        <p>
          {askedCount === 1 ? "One agent was asked" : `${askedCount} agents were asked`}, and no run waits for an
          answer. A new request appears here within a minute.
        </p>
      </section>
    );
  return (
    <section className="card blank">
      <InboxIcon size={22} />
      <h2>Runs that ask a person appear here</h2>
      <p>
        A graph stops at <code>interrupt(…)</code> and waits until a person approves, edits or declines. No deployment
        of this workspace serves the agent API at the moment.
      </p>
      <a className="button" href="https://docs.langchain.com/oss/python/langgraph/interrupts" rel="noreferrer">
        How a graph asks <ExternalLink size={13} />
      </a>
    </section>
  );
}

/** Deployments about which the inbox knows nothing, and why. */
function NotAsked({ inbox: { sleeping, unreached, foreignCount, leftCount } }: { inbox: Inbox }) {
  if (sleeping.length + unreached.length + foreignCount + leftCount === 0) return null;
  // Servers that cannot ask anything are no news.
  if (sleeping.length + unreached.length + leftCount === 0)
    return (
      <p className="softer">
        {servers(foreignCount)} {foreignCount === 1 ? "has" : "have"} no agent API, so{" "}
        {foreignCount === 1 ? "it asks" : "they ask"} nothing.
      </p>
    );
  const others = [
    ...(foreignCount > 0 ? [`${servers(foreignCount)} without the agent API`] : []),
    ...(leftCount > 0
      ? [
          `${leftCount} older ${leftCount === 1 ? "deployment" : "deployments"}, because the inbox asks the newest ${deploymentsMax}`,
        ]
      : []),
  ];
  return (
    <section className="not-asked" aria-label="Not asked">
      <h2>Not asked</h2>
      <ul className="plain">
        {sleeping.map((deployment) => (
          <Sleeper key={deployment.id} deployment={deployment} />
        ))}
        {unreached.map(({ deployment, why }) => (
          <li key={deployment.id}>
            <Unplug size={14} />
            <DeploymentLink deployment={deployment} />
            <span className="soft">{why}</span>
          </li>
        ))}
        {others.length > 0 && (
          <li>
            <MessagesSquare size={14} />
            <span className="soft">{others.join(", and ")}</span>
          </li>
        )}
      </ul>
    </section>
  );
}

const servers = (count: number) => (count === 1 ? "One server" : `${count} servers`);

function Sleeper({ deployment }: { deployment: Deployment }) {
  const [state, setState] = useState<{ isBusy: boolean; problem: string | null }>({ isBusy: false, problem: null });
  const askNow = async () => {
    setState({ isBusy: true, problem: null });
    const problem = await wake(deployment).then(() => null, textOf);
    setState({ isBusy: false, problem });
    await queries.invalidateQueries({ queryKey: ["approvals"] });
  };
  return (
    <li>
      <Moon size={14} />
      <DeploymentLink deployment={deployment} />
      <span className="soft">{state.problem ?? "Sleeps. A question would wake it."}</span>
      <button type="button" className="small" disabled={state.isBusy} onClick={() => void askNow()}>
        {state.isBusy ? "Waking …" : "Wake and ask"}
      </button>
    </li>
  );
}
