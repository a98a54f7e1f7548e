// The state of editing an instance on its page.

import { useEffect, useState } from 'react'
import { useGo, useHere } from './go.tsx'

/** In an address it opens an instance for editing. */
export const EDIT = 'edit=true'

/** `canEdit` is undefined until the instance is read. */
export function useEditing(canEdit: boolean | undefined): [boolean, (isEditing: boolean) => void] {
  const { path, search } = useHere()
  const go = useGo()
  const isWanted = search === `?${EDIT}`
  const [isEditing, setIsEditing] = useState(false)
  // biome-ignore lint/correctness/useExhaustiveDependencies: `go` is a new function in each drawing
  useEffect(() => {
    if (!isWanted || canEdit === undefined) return
    setIsEditing(canEdit)
    go(path, true)
  }, [isWanted, canEdit, path])
  return [isEditing, setIsEditing]
}
