// The API's messages of a form, at their fields; and what the fields say to the form.

import { createContext, useCallback, useContext, useLayoutEffect, useState } from 'react'

/** Messages by the dotted name of their field. */
export type Messages = { [name: string]: string }

export const MessagesContext = createContext<Messages>({})

export const useMessages = (name: string): string | undefined => useContext(MessagesContext)[name]

/** Takes why a field cannot be sent as it is, or that it can. */
export const HoldContext = createContext<Holds['hold']>(() => {})

export interface Holds {
  /** Why fields cannot be sent, by their names. */
  held: Messages
  hold: (name: string, why: string | undefined) => void
}

export function useHolds(): Holds {
  const [held, setHeld] = useState<Messages>({})
  const hold = useCallback((name: string, why: string | undefined) => {
    setHeld(({ [name]: _, ...others }) => (why === undefined ? others : { ...others, [name]: why }))
  }, [])
  return { held, hold }
}

/** Keeps the form from being sent while there is a reason, which is told at the field. */
export function useHold(name: string, why: string | undefined) {
  const hold = useContext(HoldContext)
  // Before the next key, which may send the form.
  useLayoutEffect(() => {
    hold(name, why)
    return () => hold(name, undefined)
  }, [hold, name, why])
}
