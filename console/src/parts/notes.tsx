import { type ReactNode, useEffect, useState } from "react";
import { textOf } from "../server.ts";

/** Shown only when it takes long enough to be noticed. */
export function Loading({ what }: { what: string }) {
  const [isSlow, setSlow] = useState(false);
  useEffect(() => {
    const timer = setTimeout(() => setSlow(true), 250);
    return () => clearTimeout(timer);
  }, []);
  return (
    <p className="soft" role="status">
      {isSlow ? `Reading ${what} …` : " "}
    </p>
  );
}

/** What failed, in the server's own words, and a way on. */
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

/** A place without things says what they are good for, and how to get the first one. */
export function Empty({ title, children }: { title: string; children: ReactNode }) {
  return (
    <section className="empty card">
      <h2>{title}</h2>
      {children}
    </section>
  );
}

export function Note({ kind = "info", children }: { kind?: "info" | "warn" | "bad" | "good"; children: ReactNode }) {
  return <div className={`note ${kind}`}>{children}</div>;
}
