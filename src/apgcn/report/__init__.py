"""From records to what people read: text for papers and spreadsheets, and one page to look at."""
