// The API's messages of a form at their fields, and the reasons of fields against sending.

import { createContext, useCallback, useContext, useLayoutEffect, useState } from 'react'

/** Messages by the dotted name of their field. */
export type Messages = { [name: string]: string }

export const MessagesContext = createContext<Messages>({})

export const useMessages = (name: string): string | undefined => useContext(MessagesContext)[name]

/** Takes the reason against sending a field, or undefined. */
export const HoldContext = createContext<Holds['hold']>(() => {})

export interface Holds {
  /** The reasons against sending, by the names of the fields. */
  reasons: Messages
  hold: (name: string, why: string | undefined) => void
}

export function useHolds(): Holds {
  const [reasons, setReasons] = useState<Messages>({})
  const hold = useCallback((name: string, why: string | undefined) => {
    setReasons(({ [name]: _, ...others }) => (why === undefined ? others : { ...others, [name]: why }))
  }, [])
  return { reasons: reasons, hold }
}

/** Prevents submitting while there is a reason. The field shows the reason. */
export function useHold(name: string, why: string | undefined) {
  const hold = useContext(HoldContext)
  // Before the next key, which may send the form.
  useLayoutEffect(() => {
    hold(name, why)
    return () => hold(name, undefined)
  }, [hold, name, why])
}
