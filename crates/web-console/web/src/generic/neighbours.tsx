// The way from one instance to the previous and next of the list from which it was opened.

import { Button } from '../kit/buttons.tsx'
import { useShortcuts } from '../kit/keys.ts'
import { t } from '../texts.ts'
import { useGo } from './go.tsx'

/** The keys of the page that was shown last, by the route of its list. */
const keysByRoute = new Map<string, string[]>()

export const remember = (route: string, keys: string[]) => keysByRoute.set(route, keys)

export function Neighbours({ route, id }: { route: string; id: string }) {
  const go = useGo()
  const keys = keysByRoute.get(route) ?? []
  const at = keys.indexOf(id)
  const [before, after] = [keys[at - 1], at < 0 ? undefined : keys[at + 1]]
  const open = (key: string | undefined) => key !== undefined && go(`${route}/${key}`)
  useShortcuts([
    { keys: '[', text: t('previous-one'), run: () => open(before) },
    { keys: ']', text: t('next-one'), run: () => open(after) },
  ])
  if (at < 0) return null
  return (
    <>
      <Button
        look="quiet"
        icon="chevron-left"
        aria-label={t('previous-one')}
        isDisabled={before === undefined}
        onPress={() => open(before)}
      />
      <Button
        look="quiet"
        icon="chevron-right"
        aria-label={t('next-one')}
        isDisabled={after === undefined}
        onPress={() => open(after)}
      />
    </>
  )
}
