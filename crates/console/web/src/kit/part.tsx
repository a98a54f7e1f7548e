// Parts of the console that are fetched when they are first wanted, and what is said when that fails: the page stays.

import {
  Component,
  type ComponentType,
  createElement,
  lazy,
  type ReactNode,
  Suspense,
  useEffect,
  useState,
} from 'react'
import { isUpdated } from '../api/session.ts'
import { moreTexts, t } from '../texts.ts'
import { Button } from './buttons.tsx'
import css from './controls.module.css'

/** A part could not be fetched: the server has other parts by now, or cannot be reached. */
export class NotFetched extends Error {}

/** Tells a part that could not be fetched from one that is broken. Its texts come along, unless the first lists have them. */
export const fetched =
  <T,>(load: () => Promise<T>, isFirst = false) =>
  () =>
    Promise.all([load(), isFirst || moreTexts()]).then(
      ([found]) => found,
      (error: unknown) => {
        throw new NotFetched(`${error}`)
      },
    )

/** A component that is fetched when it is first shown; where that failed, it is fetched again the next time. */
export function part<P extends object>(load: () => Promise<ComponentType<P>>): ComponentType<P> {
  const fresh = (): ComponentType<P> => lazy(fetched(async () => ({ default: await load() }))) as ComponentType<P>
  let Part = fresh()
  const again = () => {
    Part = fresh()
  }
  // biome-ignore lint/correctness/noComponentHookFactories: made once for each module, as what `lazy` makes
  return function Fetched(props: P) {
    const [round, setRound] = useState(0)
    const { onClose } = props as { onClose?: () => void }
    return (
      <Boundary key={round} onFailure={again} onRetry={() => setRound(round + 1)} onClose={onClose}>
        <Suspense>{createElement(Part, props)}</Suspense>
      </Boundary>
    )
  }
}

interface Told {
  onRetry: () => void
  onClose?: (() => void) | undefined
}

class Boundary extends Component<Told & { onFailure: () => void; children: ReactNode }, { error?: unknown }> {
  override state: { error?: unknown } = {}

  static getDerivedStateFromError(error: unknown) {
    return { error }
  }

  override componentDidCatch() {
    this.props.onFailure()
  }

  override render() {
    const { onRetry, onClose, children } = this.props
    const { error } = this.state
    if (error === undefined) return children
    return (
      <div className={css.missing}>
        <Missing error={error} onRetry={onRetry} onClose={onClose} />
      </div>
    )
  }
}

/** Why a part is not shown. Only where the server really has another console it is said to have been updated. */
export function Missing({ error, onRetry, onClose }: Told & { error: unknown }) {
  const isFetched = !(error instanceof NotFetched)
  const [answer, setAnswer] = useState<{ isNew: boolean | undefined } | undefined>()
  useEffect(() => {
    if (!isFetched) void isUpdated().then((isNew) => setAnswer({ isNew }))
  }, [isFetched])
  if (!isFetched && !answer) return null
  const isAway = !isFetched && answer?.isNew === undefined
  const text = answer?.isNew
    ? t('updated')
    : isAway
      ? t('failure.offline')
      : t(isFetched ? 'failure.other' : 'failure.part')
  return (
    <div className={css.notice} data-tone="danger" role="alert">
      <p>{text}</p>
      <div className={css.actions}>
        {!answer?.isNew && <Button onPress={onRetry}>{t('try-again')}</Button>}
        {/* Without a server nothing would come in place of the page. */}
        {!isAway && <Button onPress={() => location.reload()}>{t('reload')}</Button>}
        {onClose && (
          <Button look="quiet" onPress={onClose}>
            {t('close')}
          </Button>
        )}
      </div>
    </div>
  )
}
