import { GitFork, Play } from "lucide-react";
import { type ReactNode, useState } from "react";
import { type Agent, segment } from "../agent/client.ts";
import { changesBetween, durationText } from "../agent/timeline.ts";
import { type Checkpoint, checkpointIdOf, type ThreadState, type Values } from "../agent/types.ts";
import { fieldsOfValues, readFields, textsOf, type ValueField } from "../agent/value-fields.ts";
import { JsonBlock, jsonOf, parseJson } from "../parts/agent/json-text.tsx";
import { ValueForm } from "../parts/agent/value-form.tsx";
import { Tabs } from "../parts/fields.tsx";
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

/** A state that is edited, as a form or as JSON. */
interface Draft {
  way: "form" | "json";
  json: string;
  fields: ValueField[];
  texts: Record<string, string>;
  base: ThreadState;
}

/** Returns a draft whose form and JSON say the same. */
function draftOf(values: Values, base: ThreadState, way: Draft["way"]): Draft {
  const fields = fieldsOfValues(values);
  return { way, json: jsonOf(values), fields, texts: textsOf(fields), base };
}

/** Returns the values that were typed, or why they cannot be read. */
function read(draft: Draft): { value: Values } | { problem: string } {
  if (draft.way === "form") return readFields(draft.fields, draft.texts);
  const parsed = parseJson(draft.json);
  return "problem" in parsed ? parsed : { value: (parsed.value ?? {}) as Values };
}

/** The checkpoints of a thread, the state at one of them, and the ways to go on from there. */
export function StatePane({ agent, threadId, states, liveValues, chosen, onChoose, isRunning, onRun }: Props) {
  // The thread may go on while the user types, so a draft belongs to the checkpoint where it began.
  const [draft, setDraft] = useState<Draft | null>(null);
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
  const save = (typed: Draft) =>
    hold(async () => {
      const { base } = typed;
      const found = read(typed);
      if ("problem" in found) return setProblem(found.problem);
      const edited = Object.entries(found.value).filter(
        ([key, value]) => JSON.stringify(value) !== JSON.stringify(base.values?.[key]),
      );
      if (edited.length === 0) return setProblem("Nothing is changed.");
      const id = await fork(agent, threadId ?? "", base, Object.fromEntries(edited));
      setDraft(null);
      await runFrom(id);
    });
  return (
    <section className={draft === null ? "state-pane" : "state-pane editing"} aria-label="State">
      <StateHead state={state} isLive={liveValues !== null} />
      {draft === null && <Checkpoints states={states} index={index} onChoose={onChoose} />}
      {draft !== null ? (
        <StateEditor draft={draft} onDraft={setDraft} onProblem={setProblem}>
          {!isRunning && (
            <div className="row end state-acts">
              <button
                type="button"
                className="small"
                onClick={() => {
                  setProblem(null);
                  setDraft(null);
                }}
              >
                Cancel
              </button>
              <button type="button" className="small primary" onClick={() => void save(draft)}>
                Fork and run
              </button>
            </div>
          )}
        </StateEditor>
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
      {draft === null && state !== undefined && checkpointId !== undefined && !isRunning && (
        <div className="row">
          <button type="button" className="small" onClick={() => setDraft(draftOf(state.values ?? {}, state, "form"))}>
            <GitFork size={12} /> Edit and run
          </button>
          {(state.next ?? []).length > 0 && (
            <button type="button" className="small" onClick={() => void hold(() => runFrom(checkpointId))}>
              <Play size={12} /> Run again from here
            </button>
          )}
        </div>
      )}
    </section>
  );
}

/** The fields of a state, or its JSON. What was typed in one of them is in the other too. */
function StateEditor(props: {
  draft: Draft;
  onDraft: (draft: Draft) => void;
  onProblem: (problem: string | null) => void;
  /** What can be done with the draft. */
  children: ReactNode;
}) {
  const { draft, onDraft, onProblem, children } = props;
  const turn = (way: Draft["way"]) => {
    const found = read(draft);
    onProblem("problem" in found ? found.problem : null);
    if ("value" in found) onDraft(draftOf(found.value, draft.base, way));
  };
  return (
    <>
      <Tabs
        label="Edit as"
        value={draft.way}
        onValue={turn}
        options={[
          { value: "form", text: "Form" },
          { value: "json", text: "JSON" },
        ]}
      />
      {draft.way === "form" ? (
        <ValueForm
          fields={draft.fields}
          texts={draft.texts}
          onText={(key, text) => onDraft({ ...draft, texts: { ...draft.texts, [key]: text } })}
        />
      ) : (
        <label className="field grow">
          <span>State as JSON</span>
          <textarea value={draft.json} onChange={(event) => onDraft({ ...draft, json: event.target.value })} />
        </label>
      )}
      {children}
    </>
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
