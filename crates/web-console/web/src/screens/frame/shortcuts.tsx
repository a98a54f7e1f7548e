import { useState } from 'react'
import look from '../../generic/generic.module.css'
import css from '../../kit/controls.module.css'
import { Dialog } from '../../kit/dialogs.tsx'
import { keysText, shortcuts } from '../../kit/keys.ts'
import { t } from '../../texts.ts'

/** The keys that work on the page as it is. */
export default function Shortcuts({ onClose }: { onClose: () => void }) {
  const [list] = useState(() => shortcuts().flatMap(({ keys, text }) => (keys ? [{ keys, text }] : [])))
  const texts = [...new Set(list.map(({ text }) => text))]
  return (
    <Dialog title={t('shortcuts')} isOpen onClose={onClose}>
      <dl className={`${look.facts} ${css.keys}`}>
        {texts.map((text) => (
          <div key={text} className={look.fact}>
            <dt>
              {list
                .filter((one) => one.text === text)
                .map(({ keys }) => (
                  <kbd key={keys}>{keysText(keys)}</kbd>
                ))}
            </dt>
            <dd>{text}</dd>
          </div>
        ))}
      </dl>
    </Dialog>
  )
}
