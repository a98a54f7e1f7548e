// A preview of the form that results from the fields of a class.

import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { options } from '../../api/query.ts'
import type { Fields } from '../../api/shapes.ts'
import { Reading } from '../../generic/failure.tsx'
import { Button } from '../../kit/buttons.tsx'
import css from '../../kit/controls.module.css'
import { Dialog } from '../../kit/dialogs.tsx'
import look from '../../shared/designer.module.css'
import { recordFields } from '../../shared/forms/record-fields.ts'
import { RecordInput } from '../../shared/forms/record-input.tsx'
import { t } from '../../texts.ts'

const STEP = 30

export function Preview({ classPath, onClose }: { classPath: string; onClose: () => void }) {
  const described = useQuery(options(`${classPath}object-records/`))
  const [values, setValues] = useState<Fields>({})
  const [count, setCount] = useState(STEP)
  const fields = recordFields(described.data)
  return (
    <Dialog title={t('preview')} isOpen isWide onClose={onClose}>
      <p className={css.hint}>{t('preview.hint')}</p>
      <Reading of={[described]} />
      <div className={look.preview}>
        {fields.slice(0, count).map((field) => (
          <RecordInput
            key={field.alias}
            field={field}
            name={field.alias}
            value={values[field.alias] ?? field.default ?? null}
            onChange={(value) => setValues({ ...values, [field.alias]: value })}
          />
        ))}
      </div>
      {described.data && fields.length === 0 && <p>{t('class-fields.nothing')}</p>}
      <div className={css.actions}>
        {fields.length > count && (
          <Button onPress={() => setCount(count + STEP)}>{t('show-more', { count: fields.length - count })}</Button>
        )}
        <Button look="primary" onPress={onClose}>
          {t('close')}
        </Button>
      </div>
    </Dialog>
  )
}
