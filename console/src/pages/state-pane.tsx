import { GitFork, Play } from "lucide-react";
import { useState } from "react";
import { type Agent, segment } from "../agent/client.ts";
import { changesBetween, durationText } from "../agent/timeline.ts";
import { type Checkpoint, checkpointIdOf, type ThreadState, type Values } from "../agent/types.ts";
import { JsonBlock, jsonOf, parseJson } from "../parts/agent/json-text.tsx";
import { textOf } from "../server.ts";

interface Props {
  agent: Agent;
  threadId: string | undefined;
  states: ThreadState[];
  /** The state of the run that is watched. */
  liveValues: Values | null;
  chosen: string | undefined;
  onChoose: (checkpointId: string | undefined) => void;
  isRunning: boolean;
  onRun: (payload: Record<string, unknown>) => Promise<void>;
}

/** The checkpoints of a thread, the state at one of them, and the ways to go on from there. */
export function StatePane({ agent, threadId, states, liveValues, chosen, onChoose, isRunning, onRun }: Props) {
  // The thread may go on while the user types, so a draft belongs to the checkpoint where it began.
  const [draft, setDraft] = useState<{ text: string; base: ThreadState } | null>(null);
  const [problem, setProblem] = useState<string | null>(null);
  const at = chosen === undefined ? -1 : states.findIndex((state) => checkpointIdOf(state) === chosen);
  const index = at < 0 ? states.length - 1 : at;
  const state = states[index];
  const values = liveValues ?? state?.values ?? {};
  const changes = changesBetween(states[index - 1]?.values, state?.values);
  const checkpointId = state && checkpointIdOf(state);
  const hold = async (act: () => Promise<void>) => {
    setProblem(null);
    try {
      await act();
    } catch (error) {
      setProblem(textOf(error));
    }
  };
  const runFrom = (id: string) =>
    onRun({ input: null, checkpoint: { thread_id: threadId, checkpoint_id: id, checkpoint_ns: "" } });
  const save = ({ text, base }: { text: string; base: ThreadState }) =>
    hold(async () => {
      const parsed = parseJson(text);
      if ("problem" in parsed) return setProblem(parsed.problem);
      const edited = Object.entries((parsed.value ?? {}) as Values).filter(
        ([key, value]) => JSON.stringify(value) !== JSON.stringify(base.values?.[key]),
      );
      if (edited.length === 0) return setProblem("Nothing is changed.");
      const id = await fork(agent, threadId ?? "", base, Object.fromEntries(edited));
      setDraft(null);
      await runFrom(id);
    });
  return (
    <section className="state-pane" aria-label="State">
      <StateHead state={state} isLive={liveValues !== null} />
      <Checkpoints
        states={states}
        index={index}
        onChoose={(id) => {
          setDraft(null);
          onChoose(id);
        }}
      />
      {draft !== null ? (
        <label className="field grow">
          <span>State as JSON</span>
          <textarea value={draft.text} onChange={(event) => setDraft({ ...draft, text: event.target.value })} />
        </label>
      ) : (
        <>
          {Object.keys(changes).length > 0 && liveValues === null && (
            <p className="softer">
              Changed here: <span className="mono">{Object.keys(changes).join(", ")}</span>
            </p>
          )}
          {(state !== undefined || liveValues !== null) && (
            <JsonBlock label="State at this checkpoint" value={values} />
          )}
        </>
      )}
      {problem !== null && (
        <p role="alert" className="bad-text">
          {problem}
        </p>
      )}
      {state !== undefined && checkpointId !== undefined && !isRunning && (
        <div className="row">
          {draft !== null && (
            <>
              <button type="button" className="small primary" onClick={() => void save(draft)}>
                Fork and run
              </button>
              <button type="button" className="small quiet" onClick={() => setDraft(null)}>
                Cancel
              </button>
            </>
          )}
          {draft === null && (
            <button
              type="button"
              className="small"
              onClick={() => setDraft({ text: jsonOf(state.values ?? {}), base: state })}
            >
              <GitFork size={12} /> Edit and run
            </button>
          )}
          {draft === null && (state.next ?? []).length > 0 && (
            <button type="button" className="small" onClick={() => void hold(() => runFrom(checkpointId))}>
              <Play size={12} /> Run again from here
            </button>
          )}
        </div>
      )}
    </section>
  );
}

/** Saves changed values as a new checkpoint that follows `base`, and returns its id. */
async function fork(agent: Agent, threadId: string, base: ThreadState, values: Values): Promise<string> {
  const id = checkpointIdOf(base);
  const body = {
    ...{ values, checkpoint: { thread_id: threadId, checkpoint_id: id, checkpoint_ns: "" } },
    ...(id !== undefined && { checkpoint_id: id }),
  };
  const path = `/threads/${segment(threadId)}/state`;
  const { checkpoint } = await agent.call<{ checkpoint: Checkpoint }>("POST", path, body);
  return checkpoint.checkpoint_id ?? "";
}

function StateHead({ state, isLive }: { state: ThreadState | undefined; isLive: boolean }) {
  const next = (state?.next ?? []).join(", ") || "the next message";
  return (
    <>
      <header className="row spread">
        <h2>State</h2>
        {(state !== undefined || isLive) && <span className="softer">{isLive ? "live" : `before ${next}`}</span>}
      </header>
      {state === undefined && !isLive && <p className="soft">The state of the thread appears with its first run.</p>}
    </>
  );
}

function Checkpoints(props: {
  states: ThreadState[];
  index: number;
  /** undefined: the newest one. */
  onChoose: (id: string | undefined) => void;
}) {
  const { states, index, onChoose } = props;
  if (states.length === 0) return null;
  return (
    <ol className="checkpoints" aria-label="Checkpoints">
      {states.map((state, at) => {
        const id = checkpointIdOf(state) ?? String(at);
        const ms = Date.parse(state.created_at ?? "") - Date.parse(states[at - 1]?.created_at ?? "");
        const isLast = at === states.length - 1;
        return (
          <li key={id}>
            <button
              type="button"
              className="checkpoint"
              aria-current={at === index ? "step" : undefined}
              onClick={() => onChoose(isLast ? undefined : id)}
            >
              <span className={isLast ? "cp now" : "cp"} />
              <span className="mono clip">{labelOf(state, states[at - 1])}</span>
              <span className="softer">{Number.isFinite(ms) && ms >= 0 ? durationText(ms) : ""}</span>
            </button>
          </li>
        );
      })}
    </ol>
  );
}

function labelOf({ metadata, next }: ThreadState, before: ThreadState | undefined): string {
  if (metadata?.source === "input") return "input";
  if (metadata?.source === "update") return "edited";
  const ran = (before?.next ?? []).filter((name) => !name.startsWith("__"));
  if (ran.length > 0) return ran.join(", ");
  return (next ?? []).length > 0 ? "start" : "checkpoint";
}
