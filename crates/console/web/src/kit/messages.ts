// The API's messages of a form, at their fields.

import { createContext, useContext } from 'react'

/** Messages by the dotted name of their field. */
export type Messages = { [name: string]: string }

export const MessagesContext = createContext<Messages>({})

export const useMessages = (name: string): string | undefined => useContext(MessagesContext)[name]
