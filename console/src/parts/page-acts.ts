import { type ReactNode, type RefObject, useEffect, useRef } from "react";

/** Something that the palette offers while the part of the page that does it is shown. */
export interface PageAct {
  text: string;
  /** What it acts on, such as the name of a deployment. */
  hint: string;
  icon?: ReactNode;
  act: () => void;
}

const shown = new Set<RefObject<readonly PageAct[]>>();

/** Offers acts in the palette for as long as the caller is shown. */
export function usePageActs(acts: readonly PageAct[]): void {
  const latest = useRef(acts);
  latest.current = acts;
  useEffect(() => {
    shown.add(latest);
    return () => void shown.delete(latest);
  }, []);
}

/** Returns the acts of what is shown. */
export const pageActs = (): PageAct[] => [...shown].flatMap(({ current }) => current);
