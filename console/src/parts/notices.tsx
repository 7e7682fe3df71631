import { type ReactNode, useEffect, useState } from "react";
import { textOf } from "../server.ts";

/** A skeleton of what comes, shown only after 250 ms so that fast answers do not flicker. */
export function Loading({ what }: { what: string }) {
  const [isSlow, setSlow] = useState(false);
  useEffect(() => {
    const timer = setTimeout(() => setSlow(true), 250);
    return () => clearTimeout(timer);
  }, []);
  return (
    <div role="status">
      {isSlow && (
        <>
          <span className="sr">Loading {what} …</span>
          <div className="skeletons" aria-hidden="true">
            {[1, 2, 3, 4, 5, 6].map((line) => (
              <span key={line} className="skeleton" />
            ))}
          </div>
        </>
      )}
    </div>
  );
}

/** An error in the server's words, with a button to try again. */
export function Failure({ error, retry }: { error: unknown; retry?: () => void }) {
  return (
    <div className="note bad" role="alert">
      <p>{textOf(error)}</p>
      {retry && (
        <button type="button" onClick={retry}>
          Try again
        </button>
      )}
    </div>
  );
}

/** The text of an empty list: what its items are for, and how to create the first one. */
export function Empty({ title, children }: { title: string; children: ReactNode }) {
  return (
    <section className="empty card">
      <h2>{title}</h2>
      {children}
    </section>
  );
}

export function Notice({ kind = "info", children }: { kind?: "info" | "warn" | "bad" | "good"; children: ReactNode }) {
  return <div className={`note ${kind}`}>{children}</div>;
}
