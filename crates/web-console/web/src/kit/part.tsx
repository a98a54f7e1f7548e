// Parts of the console that are fetched on demand. If that fails, the page remains and says so.

import {
  Component,
  type ComponentType,
  createElement,
  lazy,
  type ReactNode,
  Suspense,
  useEffect,
  useState,
  useSyncExternalStore,
} from 'react'
import { checkUpdate } from '../api/session.ts'
import { moreTexts, t } from '../texts.ts'
import { Button } from './buttons.tsx'
import css from './controls.module.css'

/** A part that could not be fetched: the server has another version, or cannot be reached. */
export class NotFetched extends Error {}

/** Marks the failure to fetch a part. The texts of the part are fetched, too, unless they are among the first. */
export const fetched =
  <T,>(load: () => Promise<T>, isFirst = false) =>
  () =>
    Promise.all([load(), isFirst || moreTexts()]).then(
      ([found]) => found,
      (error: unknown) => {
        throw new NotFetched(`${error}`)
      },
    )

/** The places that show one part. If it fails, one of them says so, and all try again together. */
class Shown {
  round = 0
  teller: object | undefined
  readonly #all = new Set<() => void>()

  readonly join = (tell: () => void) => {
    this.#all.add(tell)
    return () => this.#all.delete(tell)
  }

  readonly retry = () => {
    this.round++
    this.teller = undefined
    for (const tell of this.#all) tell()
  }
}

/**
 * A component that is fetched when it is first shown, with a placeholder of the same size. After a failure it is
 * fetched again the next time.
 */
export function part<P extends object>(
  load: () => Promise<ComponentType<P>>,
  Place?: ComponentType<P>,
): ComponentType<P> {
  const fresh = (): ComponentType<P> => lazy(fetched(async () => ({ default: await load() }))) as ComponentType<P>
  let Part = fresh()
  const refetch = () => {
    Part = fresh()
  }
  const places = new Shown()
  return function Fetched(props: P) {
    const round = useSyncExternalStore(places.join, () => places.round)
    const { onClose } = props as { onClose?: () => void }
    const place = Place && createElement(Place, props)
    return (
      <Boundary places={places} round={round} place={place} onFailure={refetch} onClose={onClose}>
        <Suspense fallback={place}>{createElement(Part, props)}</Suspense>
      </Boundary>
    )
  }
}

interface Around {
  places: Shown
  round: number
  place: ReactNode
  onFailure: () => void
  onClose: (() => void) | undefined
  children: ReactNode
}

class Boundary extends Component<Around, { error?: unknown; isTelling?: boolean }> {
  override state: { error?: unknown; isTelling?: boolean } = {}

  static getDerivedStateFromError(error: unknown) {
    return { error }
  }

  override componentDidCatch() {
    const { places, onFailure } = this.props
    onFailure()
    places.teller ??= this
    if (places.teller === this) this.setState({ isTelling: true })
  }

  override componentDidUpdate({ round }: Around) {
    if (round !== this.props.round && this.state.error !== undefined)
      this.setState({ error: undefined, isTelling: false })
  }

  override componentWillUnmount() {
    const { places } = this.props
    if (places.teller === this) places.teller = undefined
  }

  override render() {
    const { places, place, onClose, children } = this.props
    const { error, isTelling } = this.state
    if (error === undefined) return children
    return (
      <>
        {place}
        {isTelling && (
          <div className={css.missing}>
            <Missing error={error} onRetry={places.retry} onClose={onClose} />
          </div>
        )}
      </>
    )
  }
}

interface Told {
  onRetry: () => void
  onClose?: (() => void) | undefined
}

/** The reason why a part is not shown. It is an update only if the server has another version of the console. */
export function Missing({ error, onRetry, onClose }: Told & { error: unknown }) {
  const isFetched = !(error instanceof NotFetched)
  const [answer, setAnswer] = useState<{ isNew: boolean | undefined } | undefined>()
  useEffect(() => {
    if (!isFetched) void checkUpdate().then((isNew) => setAnswer({ isNew }))
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
        {/* Without a server, a reload would lose the page. */}
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
