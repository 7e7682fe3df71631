import { type QueryKey, useMutation, useQuery } from "@tanstack/react-query";
import { type FormEvent, type ReactNode, useState } from "react";
import { gathered } from "../gathered.ts";
import { queries, textOf } from "../server.ts";
import { CopyAs, type Repeatable } from "./copy-as.tsx";
import { Dialog } from "./dialog.tsx";
import { Empty, Failure, Loading } from "./notices.tsx";
import { PageTitle } from "./page-head.tsx";
import { useToasts } from "./toasts.tsx";

interface Column<T> {
  name: string;
  show: (row: T) => ReactNode;
  /** The column shows few words, which stay on one line. Long addresses beside it break instead. */
  isShort?: boolean;
}

interface Props<T> {
  title: string;
  /** One sentence under the title. */
  about: ReactNode;
  /** What the items are for, shown while the list is empty. */
  teach: ReactNode;
  queryKey: QueryKey;
  /** Reads all items, however many pages of the API they take. */
  read: (signal: AbortSignal) => AsyncIterable<T> | Promise<T[]>;
  call: Repeatable;
  columns: Column<T>[];
  idOf: (row: T) => string;
  /** Buttons of a row. */
  actions?: (row: T) => ReactNode;
  /** Buttons of the page. */
  children?: ReactNode;
  refetchMs?: number;
}

/** Keeps names such as API and OAuth. */
const lowerFirst = (title: string) => title.replace(/^[A-Z](?=[a-z])/, (letter) => letter.toLowerCase());

/** A page with a list of one kind of resource. */
export function ResourcePage<T>(props: Props<T>) {
  const { title, about, teach, queryKey, read, call, columns, idOf, actions, children, refetchMs } = props;
  const readAll = async ({ signal }: { signal: AbortSignal }) => gathered(await read(signal));
  const found = useQuery({ queryKey, queryFn: readAll, refetchInterval: refetchMs ?? false });
  return (
    <>
      <div className="page-head">
        <PageTitle title={title} about={about} />
        <div className="row">
          <CopyAs call={call} />
          {children}
        </div>
      </div>
      {found.isPending && <Loading what={lowerFirst(title)} />}
      {found.isError && <Failure error={found.error} retry={() => void found.refetch()} />}
      {found.data?.length === 0 && <Empty title={`No ${lowerFirst(title)} yet`}>{teach}</Empty>}
      {found.data !== undefined && found.data.length > 0 && (
        <table className="list" aria-label={title}>
          <thead>
            <tr>
              {columns.map(({ name }) => (
                <th key={name}>{name}</th>
              ))}
              {actions && (
                <th>
                  <span className="sr">Actions</span>
                </th>
              )}
            </tr>
          </thead>
          <tbody>
            {found.data.map((row) => (
              <tr key={idOf(row)}>
                {columns.map(({ name, show, isShort = false }) => (
                  <td key={name} data-label={name} className={isShort ? "short" : undefined}>
                    {show(row)}
                  </td>
                ))}
                {actions && (
                  <td className="acts">
                    <div className="row">{actions(row)}</div>
                  </td>
                )}
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </>
  );
}

/** A button that performs one action and reports its result. `confirm`: the text of a confirmation before it. */
export function ActionButton(props: {
  text: string;
  label?: string;
  confirm?: string;
  isDanger?: boolean;
  act: () => Promise<unknown>;
  done?: string;
  /** Restores the previous state. The notification offers it for a while. */
  undo?: () => Promise<unknown>;
  renews?: QueryKey;
  onDone?: (answer: unknown) => void;
}) {
  const { text, label, confirm, isDanger, act, done, undo, renews, onDone } = props;
  const { notify, notifyError } = useToasts();
  const [isAsking, setAsking] = useState(false);
  const renew = () => renews !== undefined && void queries.invalidateQueries({ queryKey: renews });
  const revert = undo && (() => void undo().then(renew, notifyError));
  const run = useMutation({
    mutationFn: act,
    onError: notifyError,
    onSuccess: (answer) => {
      if (done !== undefined) notify(done, revert);
      renew();
      onDone?.(answer);
    },
    onSettled: () => setAsking(false),
  });
  const start = () => (confirm === undefined ? run.mutate() : setAsking(true));
  return (
    <>
      <button
        type="button"
        className={isDanger ? "danger" : ""}
        aria-label={label}
        onClick={start}
        disabled={run.isPending}
      >
        {text}
      </button>
      {isAsking && (
        <Dialog title={text} onClose={() => setAsking(false)}>
          <p>{confirm}</p>
          <div className="row end">
            <button type="button" onClick={() => setAsking(false)}>
              Cancel
            </button>
            <button type="button" className="danger" onClick={() => run.mutate()} disabled={run.isPending}>
              {text}
            </button>
          </div>
        </Dialog>
      )}
    </>
  );
}

/** A button that opens a form in a dialog. The dialog shows the server's error if it rejects the form. */
export function FormDialog<A>(props: {
  open: string;
  /** Name of the button, where several on the page have the same text. */
  label?: string;
  isQuiet?: boolean;
  title: string;
  submit: string;
  isReady: boolean;
  call: Repeatable;
  send: () => Promise<A>;
  renews: QueryKey;
  /** Shown after success, for example a key that is shown once. null: nothing, and the dialog closes. */
  result?: (answer: A, close: () => void) => ReactNode;
  onOpen?: () => void;
  onDone?: () => void;
  children: ReactNode;
}) {
  const [isOpen, setOpen] = useState(false);
  const send = useMutation({
    mutationFn: props.send,
    onSuccess: (answer) => {
      void queries.invalidateQueries({ queryKey: props.renews });
      props.onDone?.();
      if ((props.result?.(answer, close) ?? null) === null) close();
    },
  });
  const close = () => {
    setOpen(false);
    send.reset();
  };
  const onSubmit = (event: FormEvent) => {
    event.preventDefault();
    send.mutate();
  };
  return (
    <>
      <button
        type="button"
        className={props.isQuiet ? "" : "primary"}
        aria-label={props.label}
        onClick={() => {
          props.onOpen?.();
          setOpen(true);
        }}
      >
        {props.open}
      </button>
      {isOpen && (
        <Dialog title={props.title} onClose={close}>
          {send.data !== undefined && props.result ? (
            props.result(send.data, close)
          ) : (
            <form onSubmit={onSubmit}>
              {props.children}
              {send.isError && (
                <p role="alert" className="bad-text">
                  {textOf(send.error)}
                </p>
              )}
              <div className="row end dialog-acts">
                <CopyAs call={props.call} />
                <button type="button" onClick={close}>
                  Cancel
                </button>
                <button type="submit" className="primary" disabled={!props.isReady || send.isPending}>
                  {props.submit}
                </button>
              </div>
            </form>
          )}
        </Dialog>
      )}
    </>
  );
}
