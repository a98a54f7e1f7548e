import type { Page } from '../api/shapes.ts'
import { Button } from '../kit/buttons.tsx'
import css from '../kit/controls.module.css'
import { t } from '../texts.ts'

/** The way to the neighbouring pages of a list that is a part of a screen; nothing where there are none. */
export function Turn({
  page,
  offset,
  size,
  onTurn,
}: {
  page: Page | undefined
  offset: number
  size: number
  onTurn: (offset: number) => void
}) {
  if (!page?.next && offset === 0) return null
  return (
    <div className={css.actions}>
      <Button isDisabled={offset === 0} onPress={() => onTurn(offset - size)}>
        {t('previous-page')}
      </Button>
      <Button isDisabled={!page?.next} onPress={() => onTurn(offset + size)}>
        {t('next-page')}
      </Button>
    </div>
  )
}
